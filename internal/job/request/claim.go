package request

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/sys/lock"
)

// Job is a job that works in a prefix directory, as its lock describes it to others.
type Job struct {
	ID, User string
	Since    time.Time
	Launch   string // identifies the launch of a job that is a part of it, with an id of its own; "": it is the whole
}

// The lines that describe a job in its lock:
//
//	job 17
//	user anna
//	since 1764099762
//	part of 729153537
const (
	lineJob   = "job "
	lineUser  = "user "
	lineSince = "since "
	linePart  = "part of "
)

// long is the most bytes of a text in a line: the lock has room for few.
const long = 40

func (j Job) describe() string {
	short := func(text string) string {
		clean := strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return '?'
			}
			return r
		}, text)
		return clean[:min(len(clean), long)]
	}
	text := lineJob + short(j.ID) + "\n" + lineUser + short(j.User) + "\n" + lineSince + strconv.FormatInt(j.Since.Unix(), 10)
	if j.Launch != "" {
		text += "\n" + linePart + short(j.Launch)
	}
	return text
}

// described is the inverse of describe. Anybody who can write to the directory may have written the text.
func described(text string) (j Job) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			continue
		}
		if id, ok := strings.CutPrefix(line, lineJob); ok {
			j.ID = id
		}
		if user, ok := strings.CutPrefix(line, lineUser); ok {
			j.User = user
		}
		if since, ok := strings.CutPrefix(line, lineSince); ok {
			if n, err := strconv.ParseInt(since, 10, 64); err == nil {
				j.Since = time.Unix(n, 0)
			}
		}
		if launch, ok := strings.CutPrefix(line, linePart); ok {
			j.Launch = launch
		}
	}
	return j
}

// described is the job as others see it, with texts as short as theirs.
func (j Job) described() Job { return described(j.describe()) }

// sibling reports whether two jobs are parts of one launch.
func (j Job) sibling(other Job) bool {
	mine := j.described()
	return mine.Launch != "" && mine.Launch == other.Launch && mine.ID != other.ID
}

// TakenError is the error of Begin if another job works in the prefix directory.
type TakenError struct {
	Dir    string
	Holder Job    // as far as it is known
	Where  string // the process that holds its lock
	again  bool   // the job is the caller's own, or has its id
}

func (e *TakenError) Error() string {
	if e.again {
		return fmt.Sprintf("%s is still running, as a rank of an earlier run of job %s, which has to be ended (kill it), or of another job of %s with this id, in the prefix directory %s: "+
			"that needs an SCR_PREFIX of its own", e.Where, e.Holder.ID, e.Holder.User, e.Dir)
	}
	who := "another job"
	if e.Holder.ID != "" {
		who = fmt.Sprintf("job %s of %s", e.Holder.ID, e.Holder.User)
	}
	if e.Where != "" {
		who += " (" + e.Where + ")"
	}
	if !e.Holder.Since.IsZero() {
		who += ", since " + e.Holder.Since.Format(time.DateTime)
	}
	return fmt.Sprintf("%s works in the prefix directory %s: two jobs would take each other's checkpoints. Wait until it has ended, or name another directory with SCR_PREFIX; "+
		"SCR_PREFIX_SHARED=1 if they are to share it, with names of their own for all files and datasets", who, e.Dir)
}

// A run that follows another may begin before the last process of that one has ended.
const (
	ends  = 3 * time.Second
	dies  = 10 * time.Second // if it has the id of this one
	again = 50 * time.Millisecond
)

// wait waits for the lock, which rank 0 of an earlier run of the job has.
func (a *Answers) wait(holder Job) error {
	path := LockPath(a.prefix)
	w := lock.Waiting{Path: path, To: "end, which is rank 0 of an earlier run of job " + a.job.ID + ", or of another job with its id", Limit: dies}
	for a.lock == nil {
		if err := w.Pause(); errors.Is(err, lock.ErrTimeout) {
			return &TakenError{Dir: a.prefix, Holder: holder, Where: lock.Holder(path), again: true}
		} else if err != nil {
			return err
		}
		if err := a.take(); err != nil {
			return err
		}
	}
	return nil
}

// Begin begins to answer requests for a job, on its rank 0. It removes the requests that are open: a
// command that still waits enters its own again, and the others are of earlier runs. It is a *TakenError if
// another job works in the directory, unless shared is set or both are parts of one launch: then the first one
// answers. After another error this job does not answer.
func Begin(prefix string, job Job, shared bool) (*Answers, error) {
	a := &Answers{prefix: prefix, job: job}
	for began := time.Now(); a.lock == nil; time.Sleep(again) {
		if err := a.take(); err != nil {
			return a, err
		}
		if a.lock != nil {
			break
		}
		switch holder := described(lock.Description(LockPath(prefix))); {
		case shared || job.sibling(holder):
			return a, nil
		case holder.ID == job.described().ID: // probably a run that this one follows
			if err := a.wait(holder); err != nil {
				return nil, err
			}
		case time.Since(began) > ends:
			return nil, &TakenError{Dir: prefix, Holder: holder, Where: lock.Holder(LockPath(prefix))}
		}
	}
	if _, err := os.Lstat(Path(prefix)); errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	return a, update(prefix, func(f *file) {
		maps.DeleteFunc(f.Checkpoints, func(_ int, r *Request) bool { return !r.State.Over() })
	})
}
