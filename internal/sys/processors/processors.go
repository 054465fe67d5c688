// Package processors says how much the processors of a node are used.
package processors

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

// tick is the unit of times in /proc/stat: all architectures of Linux for which there is Go have 100 a second there (proc(5), stat).
const tick = 10 * time.Millisecond

// Usage is that of the processors on which the caller may run, since the machine started.
type Usage struct {
	Processors int
	Busy, Idle time.Duration // sums over the processors
	Own        time.Duration // processor time of this process, of all its threads
}

// Since returns the usage since before, the zero Usage if one of the two is not known, or of other processors. Times that have
// become less count as none: the kernel may count idle time down.
func (u Usage) Since(before Usage) Usage {
	if u.Processors != before.Processors {
		return Usage{}
	}
	return Usage{u.Processors, max(0, u.Busy-before.Busy), max(0, u.Idle-before.Idle), max(0, u.Own-before.Own)}
}

// Now returns the usage until now.
func Now() (Usage, error) {
	var mask unix.CPUSet
	var own unix.Timespec
	if err := errors.Join(unix.SchedGetaffinity(0, &mask), unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &own)); err != nil {
		return Usage{}, err
	}
	f, err := os.Open("/proc/stat")
	if err != nil {
		return Usage{}, err
	}
	defer f.Close()
	u, err := read(f, mask.IsSet)
	u.Own = time.Duration(own.Nano())
	return u, err
}

// read adds the lines of the processors for which mine returns true. In these, the fields 4 and 5 are idle time; what follows
// field 8 is part of others.
func read(stat io.Reader, mine func(cpu int) bool) (Usage, error) {
	var u Usage
	lines := bufio.NewScanner(stat)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "cpu") {
			break // the line of interrupts may be too long for a Scanner
		}
		fields := strings.Fields(lines.Text())
		if len(fields) < 9 || fields[0] == "cpu" {
			continue
		}
		cpu, err := strconv.Atoi(fields[0][len("cpu"):])
		if err != nil || !mine(cpu) {
			continue
		}
		u.Processors++
		for n, text := range fields[1:9] {
			ticks, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return Usage{}, fmt.Errorf("/proc/stat: %q: %w", lines.Text(), err)
			}
			if n == 3 || n == 4 {
				u.Idle += time.Duration(ticks) * tick
			} else {
				u.Busy += time.Duration(ticks) * tick
			}
		}
	}
	if u.Processors == 0 {
		return Usage{}, errors.Join(errors.New("/proc/stat has no line of a processor of this process"), lines.Err())
	}
	return u, nil // the other lines do not count
}
