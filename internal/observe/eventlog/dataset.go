package eventlog

import (
	"time"

	"github.com/goscr/goscr/internal/prefix/dataset"
)

// Dataset logs what happened to a dataset.
func (l *Log) Dataset(kind string, d dataset.Dataset, r Record) {
	r.Type, r.Dataset, r.Name = kind, d.ID(), d.Name()
	l.Add(r)
}

// Result logs the result of an operation that began at start: an event of the type done; or of the
// type failed, with the error.
func (l *Log) Result(done, failed string, d dataset.Dataset, start time.Time, err error) {
	r := Record{Start: start, Seconds: Since(start)}
	if err != nil {
		done, r.Note = failed, err.Error()
	}
	l.Dataset(done, d, r)
}

// Copied logs a transfer that began at start: all files of a dataset were copied, or read
// and protected.
func (l *Log) Copied(kind string, d dataset.Dataset, from, to string, start time.Time) {
	l.Dataset(kind, d, Record{Transfer: true, From: from, To: to, Start: start, Seconds: Since(start),
		Bytes: Count(d.Size()), Files: Count(int64(d.Files()))})
}
