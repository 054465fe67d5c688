package eventlog

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrForeign is wrapped by the error of a line that is none of a log.
var ErrForeign = errors.New("no line of a log of goscr or SCR")

// Parse reads a line that Line has made, or one of SCR 3.1,
// whose times are local. It passes over keys that it does not know.
func Parse(line string) (Record, error) {
	var r Record
	stamp, rest, found := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
	if !found {
		return r, ErrForeign
	}
	var err error
	if r.Time, err = parseTime(stamp); err != nil {
		return r, ErrForeign
	}
	var p fields
	for rest != "" {
		var key, value string
		if key, value, rest, err = next(rest); err != nil {
			return r, err
		}
		p.set(&r, key, value)
	}
	if r.Type == "" && p.bad == nil {
		p.bad = ErrForeign
	}
	return r, p.bad
}

// parseTime reads a time of a line. One that no log can have is an error, so that all
// differences between times are Durations.
func parseTime(text string) (time.Time, error) {
	t, err := time.Parse(timeLayout, text)
	if err != nil {
		t, err = time.ParseInLocation(oldLayout, text, time.Local)
	}
	if err == nil && (t.UTC().Year() < 1969 || t.UTC().Year() > 2200) {
		err = ErrForeign
	}
	return t, err
}

// next cuts the first "key=value, " from text.
func next(text string) (key, value, rest string, err error) {
	key, rest, found := strings.Cut(text, "=")
	if !found || strings.ContainsAny(key, " \",") {
		return "", "", "", fmt.Errorf("%w: %.40q is no key and value", ErrForeign, text)
	}
	if strings.HasPrefix(rest, `"`) {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return "", "", "", fmt.Errorf("%w: the text of %s has no end", ErrForeign, key)
		}
		if value, err = strconv.Unquote(quoted); err != nil {
			return "", "", "", fmt.Errorf("%w: the text of %s: %w", ErrForeign, key, err)
		}
		rest = rest[len(quoted):]
		if rest != "" && !strings.HasPrefix(rest, ", ") {
			return "", "", "", fmt.Errorf("%w: %.40q follows the text of %s", ErrForeign, rest, key)
		}
		return key, value, strings.TrimPrefix(rest, ", "), nil
	}
	value, rest, _ = strings.Cut(rest, ", ")
	return key, value, rest, nil
}

// fields sets the fields of a record, and keeps the first error.
type fields struct{ bad error }

func (p *fields) set(r *Record, key, value string) {
	switch key {
	case "host":
		r.Job.Host = value
	case "jobid":
		r.Job.ID = value
	case "user":
		r.Job.User = value
	case "jobname":
		r.Job.Name = value
	case "cluster":
		r.Job.Cluster = value
	case "event":
		r.Type = value
	case "xfer":
		r.Type, r.Transfer = value, true
	case "phase":
		r.Type = value
		r.spread()
	case "note":
		r.Note = value
	case "from":
		r.From = value
	case "to":
		r.To = value
	case "dset":
		r.Dataset = int(p.integer(key, value))
	case "name":
		r.Name = value
	case "start":
		t, err := parseTime(value)
		if err != nil {
			p.fail(key, value)
		}
		r.Start = t
	case "secs":
		r.Seconds = new(float64)
		*r.Seconds = p.number(key, value)
	case "bytes":
		r.Bytes = Count(p.integer(key, value))
	case "files":
		r.Files = Count(p.integer(key, value))
	default:
		p.setMore(r, key, value)
	}
}

// setMore sets the fields of phases and runs.
func (p *fields) setMore(r *Record, key, value string) {
	switch key {
	case "least":
		r.spread().Least = p.number(key, value)
	case "median":
		r.spread().Median = p.number(key, value)
	case "most":
		r.spread().Most = p.number(key, value)
	case "rank":
		r.spread().Rank = int(p.integer(key, value))
	case "node":
		r.spread().Node = value
	case "run":
		r.run().Number = int(p.integer(key, value))
	case "status":
		r.run().Status = new(int)
		*r.Run.Status = int(p.integer(key, value))
	case "signal":
		r.run().Signal = int(p.integer(key, value))
	case "nodes":
		r.run().Nodes = int(p.integer(key, value))
	case "ranks":
		r.run().Ranks = int(p.integer(key, value))
	case "nodelist":
		r.run().NodeList = value
	}
}

func (r *Record) spread() *Spread {
	if r.Spread == nil {
		r.Spread = &Spread{}
	}
	return r.Spread
}

func (r *Record) run() *Run {
	if r.Run == nil {
		r.Run = &Run{}
	}
	return r.Run
}

func (p *fields) fail(key, value string) {
	if p.bad == nil {
		p.bad = fmt.Errorf("%w: %s=%.40q", ErrForeign, key, value)
	}
}

func (p *fields) integer(key, value string) int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		p.fail(key, value)
	}
	return n
}

func (p *fields) number(key, value string) float64 {
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		p.fail(key, value)
		return 0
	}
	return f
}
