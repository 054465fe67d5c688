// Package idle measures how long the processors of a node had nothing to do but work of a low priority, so that the protection of
// datasets knows whether it can use them beside the program.
package idle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Meter measures the processors on which the calling thread may run.
type Meter struct {
	may   func(cpu int) bool
	stat  func() (io.ReadCloser, error)
	since counters
}

// counters are what the kernel has counted since the start of the node.
type counters struct {
	spare    time.Duration // of the processors of the meter: idle, waiting for a disk, or at niced work
	may, all int           // the number of these processors, and of all
}

// New returns a Meter, whose first lap begins now.
func New() (*Meter, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	m := &Meter{may: set.IsSet, stat: func() (io.ReadCloser, error) { return os.Open("/proc/stat") }}
	_, err := m.Lap(1)
	return m, err
}

// Lap returns the caller's part of the time for which the processors were spare since the last call. ranks is the number of
// processes of the node that share its processors evenly: where each has processors of its own, the part is all of their time.
func (m *Meter) Lap(ranks int) (time.Duration, error) {
	file, err := m.stat()
	if err != nil {
		return 0, err
	}
	defer file.Close()
	now, err := read(file, m.may)
	if err != nil {
		return 0, err
	}
	spare := now.spare - m.since.spare
	m.since = now
	sharers := max(1, float64(ranks)*float64(now.may)/float64(now.all))
	return time.Duration(float64(max(spare, 0)) / sharers), nil // the kernel's counters can go back
}

// read reads /proc/stat (proc_stat(5)): lines "cpuN user nice system idle iowait ...", in units of which a second has 100.
func read(r io.Reader, may func(cpu int) bool) (c counters, err error) {
	const unit = time.Second / 100
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20) // the line of interrupts is long
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 6 || !strings.HasPrefix(words[0], "cpu") || words[0] == "cpu" {
			continue
		}
		cpu, err := strconv.Atoi(words[0][len("cpu"):])
		if err != nil {
			return c, fmt.Errorf("/proc/stat: %q: %w", words[0], err)
		}
		c.all++
		if !may(cpu) {
			continue
		}
		c.may++
		for _, column := range []int{2, 4, 5} { // nice, idle, iowait
			n, err := strconv.ParseInt(words[column], 10, 64)
			if err != nil {
				return c, fmt.Errorf("/proc/stat: %q: %w", lines.Text(), err)
			}
			c.spare += time.Duration(n) * unit
		}
	}
	if c.may == 0 && lines.Err() == nil {
		return c, errors.New("/proc/stat has none of the processors on which the process may run")
	}
	return c, lines.Err()
}
