package database

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/goscr/goscr/internal/observe/eventlog"
)

// most is how many records can wait for the database before the oldest are dropped.
const most = 10000

// grace is how long Serve continues after it has received the last record. Records that
// are not written by then are lost. Tests can change it.
var grace = 10 * time.Second

// pause is the time between attempts to reach a database that does not answer.
var pause = 5 * time.Second

// ErrLate is returned by Serve if not all records were written in time.
var ErrLate = errors.New("the database has not taken all events in time")

// Serve reads the records of a job from in until it ends, and writes them to the database.
// It writes errors to out, one on each line. If the database does not answer, Serve tries
// again, because the database may come back before the job ends.
//
// It reads records as they arrive, even while the database does not answer, so that the job
// never waits.
func Serve(in io.Reader, out io.Writer) error {
	at, next, err := eventlog.Receive(in)
	if err != nil {
		return err
	}
	db, err := Open(at, out)
	if err != nil {
		return err
	}
	w := &writer{db: db, out: out, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go w.run()
	for {
		r, err := next()
		if err != nil {
			if err != io.EOF {
				fmt.Fprintf(out, "%v\n", err)
			}
			break
		}
		w.add(r)
	}
	w.end()
	select {
	case <-w.done:
		return db.Close()
	case <-time.After(grace):
		return ErrLate
	}
}

// writer writes the records of a queue to the database.
type writer struct {
	db   *DB
	out  io.Writer
	wake chan struct{} // gets a value when a record arrives, and when the last one has
	done chan struct{} // closed when run has returned

	mu      sync.Mutex
	waiting []eventlog.Record
	dropped int
	ended   bool
}

func (w *writer) add(r eventlog.Record) {
	w.mu.Lock()
	if len(w.waiting) == most {
		w.waiting = w.waiting[1:]
		w.dropped++
	}
	w.waiting = append(w.waiting, r)
	w.mu.Unlock()
	w.signal()
}

func (w *writer) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.signal()
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // the writer has not read the last one yet
	}
}

// take removes the oldest record from the queue and returns it. ended says that no more
// records will arrive.
func (w *writer) take() (r eventlog.Record, ok, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		return r, false, w.ended
	}
	r = w.waiting[0]
	w.waiting = w.waiting[1:]
	return r, true, w.ended
}

func (w *writer) run() {
	defer close(w.done)
	for {
		r, ok, ended := w.take()
		switch {
		case ok:
			if !w.write(r) {
				w.giveUp(r)
				return
			}
		case ended:
			if w.dropped > 0 {
				fmt.Fprintf(w.out, "%d events were dropped while the database did not answer\n", w.dropped)
			}
			return
		default:
			<-w.wake
		}
	}
}

// write writes one record, and tries again until it succeeds. Once no more records arrive
// it tries only once more, and returns false if that fails.
func (w *writer) write(r eventlog.Record) bool {
	for last := false; ; last = w.sleep() {
		err := w.db.Write(r)
		if err == nil {
			return true
		}
		fmt.Fprintf(w.out, "%v\n", err)
		if last {
			return false
		}
	}
}

// sleep waits until the next attempt. If no more records will arrive, it returns true at
// once.
func (w *writer) sleep() (ended bool) {
	next := time.NewTimer(pause)
	defer next.Stop()
	for {
		w.mu.Lock()
		ended = w.ended
		w.mu.Unlock()
		if ended {
			return true
		}
		select {
		case <-w.wake:
		case <-next.C:
			return false
		}
	}
}

// giveUp reports the records that are lost, of which r is the first.
func (w *writer) giveUp(r eventlog.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, "%d events from %s on are not in the database\n", len(w.waiting)+1+w.dropped, r.Type)
}
