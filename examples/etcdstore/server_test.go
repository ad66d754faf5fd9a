package etcdstore

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// memberVariable makes the test binary a member of a cluster instead of running tests.
const memberVariable = "TRANCHE_ETCD_MEMBER"

// member is a member of a cluster.
type member struct {
	Name   string
	Dir    string
	Client string // address, host:port
	Peer   string
	Peers  string // NAME=URL, …
	Fast   bool   // no fsync, for members that are never killed

	process *exec.Cmd
	stdin   io.Closer
}

func (m *member) config() *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = m.Name, m.Dir
	client, peer := url.URL{Scheme: "http", Host: m.Client}, url.URL{Scheme: "http", Host: m.Peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = m.Peers
	cfg.TickMs, cfg.ElectionMs = 50, 500
	cfg.UnsafeNoFsync = m.Fast
	cfg.LogLevel = "panic"
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	return cfg
}

// serveMember is the main function of a member process: it ends when its standard input does.
func serveMember(description string) error {
	var m member
	if err := json.Unmarshal([]byte(description), &m); err != nil {
		return err
	}
	server, err := embed.StartEtcd(m.config())
	if err != nil {
		return err
	}
	fmt.Println("started")
	_, err = io.Copy(io.Discard, os.Stdin)
	server.Close()
	return err
}

// start starts the member as a process. It does not wait until the cluster has a leader.
func (m *member) start() error {
	description, err := json.Marshal(m)
	if err != nil {
		return err
	}
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), memberVariable+"="+string(description))
	process.Stderr = os.Stderr
	stdin, err1 := process.StdinPipe()
	out, err2 := process.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	m.process, m.stdin = process, stdin // open as long as the member is wanted
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "started\n" {
		return fmt.Errorf("member %s: %q, %w", m.Name, line, err)
	}
	return nil
}

// kill ends the process at once, as a crash would.
func (m *member) kill() {
	if m.process != nil {
		_ = m.process.Process.Signal(syscall.SIGKILL)
		_ = m.process.Wait()
		_ = m.stdin.Close()
		m.process = nil
	}
}

// stop lets the process end by itself.
func (m *member) stop() {
	_ = m.stdin.Close()
	_ = m.process.Wait()
	m.process = nil
}

// newMembers describes a cluster of n members below a directory, on free ports.
func newMembers(tb testing.TB, n int) []*member {
	tb.Helper()
	held := make([]net.Listener, 2*n) // all at once, so that no port is given twice
	for i := range held {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		held[i] = l
	}
	dir := tb.TempDir()
	var peers []string
	members := make([]*member, n)
	for i := range members {
		members[i] = &member{
			Name: fmt.Sprint("m", i), Dir: fmt.Sprintf("%s/m%d", dir, i),
			Client: held[2*i].Addr().String(), Peer: held[2*i+1].Addr().String(),
		}
		peers = append(peers, fmt.Sprintf("%s=http://%s", members[i].Name, members[i].Peer))
	}
	for i, l := range held {
		l.Close()
		members[i/2].Peers = strings.Join(peers, ",")
	}
	return members
}

// newCluster starts n members as processes and waits until they answer.
func newCluster(tb testing.TB, n int) []*member {
	tb.Helper()
	members := newMembers(tb, n)
	startCluster(tb, members)
	return members
}

func startCluster(tb testing.TB, members []*member) {
	tb.Helper()
	for _, m := range members {
		tb.Cleanup(m.kill)
		if err := m.start(); err != nil {
			tb.Fatal(err)
		}
	}
	client := connect(tb, members...)
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, err := client.Get(tb.Context(), "ready")
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("the cluster does not answer: %v", err)
		}
	}
}

// shared is one member in this process, for all tests that never stop it.
var shared struct {
	once   sync.Once
	server *embed.Etcd
	member *member
	err    error
}

func sharedMember(tb testing.TB) *member {
	tb.Helper()
	shared.once.Do(func() {
		for range 5 { // a port may be taken between looking and listening
			m := newMembers(tb, 1)[0]
			if m.Dir, shared.err = os.MkdirTemp("", "etcdstore"); shared.err != nil {
				return
			}
			m.Fast = true
			shared.member = m
			if shared.server, shared.err = embed.StartEtcd(m.config()); shared.err == nil {
				break
			}
		}
		if shared.err != nil {
			return
		}
		select {
		case <-shared.server.Server.ReadyNotify():
		case <-time.After(30 * time.Second):
			shared.err = errors.New("the server is not ready after 30 s")
		}
	})
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.member
}

func stopShared() {
	if shared.server != nil {
		shared.server.Close()
		os.RemoveAll(shared.member.Dir)
	}
}

// connect returns a client of members.
func connect(tb testing.TB, members ...*member) *clientv3.Client {
	tb.Helper()
	var addresses []string
	for _, m := range members {
		addresses = append(addresses, m.Client)
	}
	client, err := dial(addresses...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close() })
	return client
}

func dial(addresses ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: addresses, Logger: zap.NewNop(), DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second,
		BackoffWaitBetween: 20 * time.Millisecond,
	})
}
