package sockets

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Strangers leave descriptors to the program, also where there are few.
func TestStrangers_FewDescriptors(t *testing.T) {
	const variable = "GOSCR_TEST_STRANGERS"
	if at := os.Getenv(variable); at != "" { // this process is the strangers
		for range mostStrangers {
			c, err := net.Dial("tcp", at)
			if err != nil {
				break
			}
			defer c.Close()
		}
		fmt.Println("connected")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	comms := ranks(t, 2, long, nil)
	cmd := exec.Command(os.Args[0], "-test.run=^TestStrangers_FewDescriptors$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"="+comms[0].net.here.toward(comms[0].net.here)[0].String())
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() { in.Close(); _ = cmd.Wait() }()
	probe, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Close(probe))
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	limit := old
	limit.Cur = uint64(probe + 40)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) }()
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "connected"; {
	}
	count := func() (n int) {
		comms[0].net.mu.Lock()
		defer comms[0].net.mu.Unlock()
		for _, l := range comms[0].net.links {
			if l.state == awaitsHello {
				n++
			}
		}
		return n
	}
	for end := time.Now().Add(10 * time.Second); comms[0].net.accepted() < mostStrangers && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if n := count(); n > 8 {
		t.Errorf("%d strangers have a descriptor of %d", n, limit.Cur)
	}
	var mine []int // what the program opens
	for range 24 {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Errorf("after %d files of the program: %v", len(mine), err)
			break
		}
		mine = append(mine, fd)
	}
	for i, err := range each(comms, func(c *Comm) error {
		c.Barrier()
		return nil
	}) { // the ranks connect
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
	closeAll(mine)
	for i, err := range each(comms, func(c *Comm) error {
		c.Free()
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

// accepted returns how many connections there have been.
func (n *network) accepted() int32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.made
}
