package run

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"

	"github.com/goscr/goscr/internal/job/batch"
)

// messages forwards what a launcher writes on stderr, and reads in it when the launcher begins to end the run, on which
// node the first process has died, and whether the launcher rejects its options.
type messages struct {
	launcher batch.Launcher
	w        *os.File      // the launcher writes here
	ending   chan struct{} // has a value once the launcher has begun to end the run
	done     chan struct{} // closed when the launcher and its children have closed w

	mu      sync.Mutex
	line    []byte // the beginning of a line that is not complete
	failed  bool   // a process has failed
	node    string // ... on this node; "": it was not the node's fault
	rejects string // the line by which the launcher rejects its options, "": it does not
}

// longestLine is the most of a line in which messages looks for a failure, in bytes.
const longestLine = 4096

// newMessages passes messages on to out. The caller closes w once the launcher has it.
func newMessages(launcher batch.Launcher, out io.Writer) (*messages, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	m := &messages{launcher: launcher, w: w, ending: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		// A process that the launcher leaves behind may write for longer than the run, and
		// would get SIGPIPE if r were closed earlier.
		defer close(m.done)
		defer r.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Read(buf)
			if n > 0 && out != nil {
				_, _ = out.Write(buf[:n]) // the launcher cannot be told
			}
			m.read(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	return m, nil
}

// read looks for a failure in the next bytes.
func (m *messages) read(p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(p) > 0 && !m.failed {
		line, rest, ends := bytes.Cut(p, []byte("\n"))
		m.line = append(m.line, line[:min(len(line), longestLine-len(m.line))]...)
		if !ends {
			return
		}
		if m.rejects == "" && m.launcher.Rejects(string(m.line)) {
			m.rejects = string(m.line)
		}
		m.node, m.failed = batch.Failure(string(m.line))
		if batch.Ending(string(m.line)) {
			select {
			case m.ending <- struct{}{}:
			default:
			}
		}
		m.line, p = m.line[:0], rest
	}
}

// result returns the node on which the first process of a run has died by a signal, "" if that is not known, and the line by which
// the launcher rejects its options, "" if it does not. The launcher has ended.
func (m *messages) result() (node, rejects string) {
	select {
	case <-m.done:
	case <-time.After(drainTime): // a process that is left behind has w open
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.node, m.rejects
}
