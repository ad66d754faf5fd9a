//go:build unix

package controllertest

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// host is a controller with the network around it. Its process comes and goes.
type host struct {
	*schedule
	number  uint64
	name    string
	proxies []*proxy
	address string

	mu      sync.Mutex
	process *os.Process
}

// process is one life of a controller.
type process struct {
	*exec.Cmd
	stdin io.WriteCloser
	out   io.Reader
}

// pause stops all of the process, which has said that it is stopped; wake lets it go on from there.
func (p *process) pause() { _ = p.Process.Signal(syscall.SIGSTOP) }

func (p *process) wake() {
	_ = p.Process.Signal(syscall.SIGCONT)
	p.tell(wordGo)
}

// tell says something to the process, unless it has ended.
func (p *process) tell(word string) { _, _ = io.WriteString(p.stdin, word+"\n") }

// random returns the source of one of the goroutines around a host.
func (h *host) random(use uint64) *rand.Rand { return rand.New(rand.NewPCG(h.seed, 1+h.number*10+use)) }

// supervise starts the process again and again, until the test ends.
func (h *host) supervise() {
	life := h.random(1)
	for n := 0; ; n++ {
		select {
		case <-h.over:
			return
		default:
		}
		description, err := json.Marshal(child{
			Address: h.address, Space: h.space, Seed: life.Uint64(), Nodes: scheduleNodes, Contrary: h.number > 0, Epoch: h.clock.epoch, Start: h.clock.start,
		})
		if err != nil {
			h.fault("%v", err)
			return
		}
		process, err := h.start(string(description))
		if err != nil {
			h.fault("start %s: %v", h.name, err)
			return
		}
		h.tally.add("process", 1)
		lines := bufio.NewScanner(process.out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			h.hear(process, lines.Text(), life)
		}
		err = process.Wait()
		h.mu.Lock()
		h.process = nil
		h.mu.Unlock()
		if exit := new(exec.ExitError); err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 0) {
			h.fault("%s ended: %v", h.name, err)
			return
		}
		h.sleep(life, 10, 100)
	}
}

func (h *host) start(description string) (*process, error) {
	p := &process{Cmd: exec.Command(os.Args[0])}
	p.Env = append(os.Environ(), childVariable+"="+description)
	p.Stderr = os.Stderr
	p.SysProcAttr = attributes()
	var err error
	if p.stdin, err = p.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = p.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.process = p.Process
	h.mu.Unlock()
	h.group.Go(func() { // it ends with the test at the latest, paused or not
		select {
		case <-h.calm:
			p.tell(wordCalm)
		case <-h.over:
		}
		<-h.over
		_ = p.Process.Signal(syscall.SIGCONT)
		_ = p.stdin.Close()
		time.AfterFunc(time.Second, func() { _ = p.Process.Kill() }) // a process that has ended is not signalled
	})
	return p, nil
}

// hear takes down what a controller says.
func (h *host) hear(process *process, line string, life *rand.Rand) {
	kind, rest, _ := strings.Cut(line, " ")
	n := 1
	switch kind {
	case lineStopped:
		pause := time.Duration(20+life.IntN(1200)) * time.Millisecond
		process.pause()
		h.group.Go(func() {
			select {
			case <-h.over:
			case <-h.calm:
			case <-time.After(pause):
			}
			process.wake()
		})
	case lineCreated:
		h.schedule.mu.Lock()
		h.created[rest]++
		h.schedule.mu.Unlock()
	case lineConflict:
		n, _ = strconv.Atoi(rest)
	case lineKilled, lineRepeated, lineReleased, lineFenced, lineBusy, lineBehind, lineGaveUp, lineFailed:
	default:
		h.fault("%s: %s", h.name, line)
	}
	h.tally.add(kind, n)
}

// sleep waits for a random time, and reports whether there is still trouble to make.
func (h *host) sleep(random *rand.Rand, least, most int) bool {
	select {
	case <-h.over:
	case <-h.calm:
	case <-time.After(time.Duration(least+random.IntN(most-least)) * time.Millisecond):
		return true
	}
	return false
}

// network makes the network between the controller and its database fail, at times for longer than
// the controller waits.
func (h *host) network() {
	random := h.random(2)
	for h.sleep(random, 100, 700) {
		kind := [...]string{"stalled", "deaf", "cut"}[random.IntN(3)]
		h.tally.add(kind, 1)
		for _, p := range h.proxies {
			switch kind {
			case "stalled":
				p.stall()
			case "deaf":
				p.deafen()
			default:
				p.cut()
			}
		}
		if kind != "cut" {
			h.sleep(random, 50, 3*int(callTimeout/time.Millisecond))
		}
		for _, p := range h.proxies {
			p.resume()
		}
	}
}

// killer kills the process from without.
func (h *host) killer() {
	random := h.random(3)
	for h.sleep(random, 300, 2500) {
		h.mu.Lock()
		if h.process != nil {
			_ = h.process.Signal(syscall.SIGKILL)
			h.tally.add("killed", 1)
		}
		h.mu.Unlock()
	}
}
