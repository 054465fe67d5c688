package faultfs

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"
)

// faults decides which calls fail.
type faults struct {
	mu      sync.Mutex
	list    []Fault
	slow    time.Duration
	random  *rand.Rand
	stuck   map[string]int // calls that wait, as "fsync a/b"
	hit     []string       // calls that have failed or were stuck
	release chan struct{}
}

func (f *faults) set(opt Options) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list, f.slow = append([]Fault(nil), opt.Faults...), opt.Slow
	f.random = rand.New(rand.NewPCG(opt.Seed, 0))
	f.hit = nil
	if f.release == nil {
		f.release, f.stuck = make(chan struct{}), map[string]int{}
	}
}

// let has all calls continue that are stuck, and no later one get stuck.
func (f *faults) let() {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []Fault
	for _, one := range f.list {
		if one.Errno != 0 {
			list = append(list, one)
		}
	}
	f.list = list
	close(f.release)
	f.release = make(chan struct{})
}

// ofFile reports whether a fault is one of a file, from when it is opened.
func (one Fault) ofFile() bool { return one.Call == Write || one.Call == Sync || one.Call == Close }

// take finds the fault of a call, or of a file that is opened for writing, which then
// is no longer in the list.
func (f *faults) take(path string, fits func(Fault) bool) (Fault, bool) {
	for i, one := range f.list {
		if !fits(one) || !strings.Contains(path, one.Path) {
			continue
		}
		if one.Skip > 0 {
			f.list[i].Skip--
			continue
		}
		if one.Errno != 0 || one.ofFile() { // other calls get stuck until they are released
			f.list = append(f.list[:i:i], f.list[i+1:]...)
		}
		return one, true
	}
	return Fault{}, false
}

// opened returns the fault of a file that is opened for writing, nil if it has none.
// kept is the number of bytes that are stored of it.
func (f *faults) opened(path string) (fault *Fault, kept int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, ok := f.take(path, Fault.ofFile)
	if !ok {
		return nil, 0
	}
	return &one, f.random.Int64N(2000)
}

// before is called at the beginning of a call: it waits, or fails.
func (f *faults) before(ctx context.Context, call Call, path string) syscall.Errno {
	f.mu.Lock()
	wait := time.Duration(0)
	if f.slow > 0 {
		wait = time.Duration(f.random.Int64N(int64(f.slow)))
	}
	one, ok := f.take(path, func(one Fault) bool { return one.Call == call && !one.ofFile() })
	f.mu.Unlock()
	if wait > 0 {
		time.Sleep(wait)
	}
	if !ok {
		return 0
	}
	return f.strike(ctx, one, call, path)
}

// strike fails a call, or keeps it.
func (f *faults) strike(ctx context.Context, one Fault, call Call, path string) syscall.Errno {
	name := string(call) + " " + path
	f.mu.Lock()
	f.hit = append(f.hit, name)
	release := f.release
	if one.Errno == 0 {
		f.stuck[name]++
	}
	f.mu.Unlock()
	if one.Errno != 0 {
		return one.Errno
	}
	errno := syscall.Errno(0)
	select {
	case <-release:
	case <-ctx.Done(): // a signal has come
		errno = syscall.EINTR
	}
	f.mu.Lock()
	if f.stuck[name]--; f.stuck[name] == 0 {
		delete(f.stuck, name)
	}
	f.mu.Unlock()
	return errno
}

// waiting returns the calls that are stuck.
func (f *faults) waiting() (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.stuck {
		list = append(list, name)
	}
	return list
}

func (f *faults) hits() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.hit...)
}
