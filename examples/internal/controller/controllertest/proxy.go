//go:build unix

package controllertest

import (
	"errors"
	"net"
	"sync"
)

// A proxy stands between a controller and its database, and is the network that fails.
type proxy struct {
	listener net.Listener
	network  string
	address  string // of the database

	mu      sync.Mutex
	resumed *sync.Cond
	stalled bool // nothing is forwarded; it arrives later
	mute    bool // questions arrive, answers do not
	closed  bool
	budget  int64 // how many more bytes of answers arrive before the connections are cut; negative: all
	conns   map[net.Conn]bool
}

// newProxy forwards what arrives at the listener, which it takes over.
func newProxy(listener net.Listener, network, address string) *proxy {
	p := &proxy{listener: listener, network: network, address: address, budget: -1, conns: map[net.Conn]bool{}}
	p.resumed = sync.NewCond(&p.mu)
	go p.accept()
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		go p.join(client)
	}
}

func (p *proxy) join(client net.Conn) {
	server, err := net.Dial(p.network, p.address)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		client.Close()
		server.Close()
		return
	}
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	go p.copy(server, client, false)
	p.copy(client, server, true)
}

// copy forwards one direction. What was read before a stall is forwarded after it, even if the
// reader's own time is long up: that is the late write of a controller that believes it was lost.
func (p *proxy) copy(to, from net.Conn, answers bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		for p.stalled && !p.closed {
			p.resumed.Wait()
		}
		drop := answers && p.mute
		if answers && p.budget >= 0 {
			if int64(n) > p.budget {
				n, err = int(p.budget), net.ErrClosed
			}
			p.budget -= int64(n)
		}
		p.mu.Unlock()
		if n > 0 && !drop {
			if _, failed := to.Write(buffer[:n]); failed != nil {
				err = failed
			}
		}
		if err != nil {
			p.mu.Lock()
			delete(p.conns, to)
			delete(p.conns, from)
			p.mu.Unlock()
			to.Close()
			from.Close()
			return
		}
	}
}

// stall stops forwarding until [proxy.resume].
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = true
}

// deafen lets questions through and no answers, until [proxy.resume].
func (p *proxy) deafen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = true
}

// allow lets n more bytes of answers through and cuts the connections after them, until
// [proxy.resume].
func (p *proxy) allow(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = n
}

// resume forwards again. Connections whose answers were dropped are cut, for nobody could make
// sense of what follows.
func (p *proxy) resume() {
	p.mu.Lock()
	wasMute := p.mute
	p.stalled, p.mute, p.budget = false, false, -1
	p.resumed.Broadcast()
	p.mu.Unlock()
	if wasMute {
		p.cut()
	}
}

// cut closes all connections; new ones are welcome.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		conn.Close()
	}
}

// close ends the proxy.
func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed, p.stalled = true, false
	p.resumed.Broadcast()
	p.mu.Unlock()
	p.cut()
}
