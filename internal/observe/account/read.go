package account

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/database"
)

// longest is the length in bytes of a line of a text log. goscr does not write longer ones.
const longest = 1 << 20

// ErrEmpty is wrapped by the error of a log that has no run, or that there is not.
var ErrEmpty = errors.New("no run is logged")

// Read makes an Account of a log: a text log, with the older ones that were rotated; an
// SQLite database; a prefix directory, of whose logs the text is read if it is there; or a
// database on a server, as mysql://USER:PASSWORD@HOST/DATABASE. If parts of a text log
// cannot be read, there are both an Account of the others and an error.
func Read(what string) (*Account, error) {
	c := NewCollector()
	err := read(what, c.Add)
	if len(c.account.Runs) == 0 {
		if err == nil {
			err = fmt.Errorf("%s: %w", what, ErrEmpty)
		}
		return nil, err
	}
	a := c.Account(time.Now())
	if err != nil {
		a.Problem = err.Error()
	}
	return a, err
}

// EndRuns counts runs without an end in the log as ended, if no run is under way in the prefix
// directory of the log, what, as Read has got it.
func (a *Account) EndRuns(what string) {
	if !isOver(what) {
		return
	}
	for _, run := range a.Runs {
		if run.Outcome == Open {
			run.close()
		}
	}
}

// isOver reports whether what is the prefix directory, or the log in it, of a job that has no run,
// and that scr_run does not start again. Runs without an end in the log have died then.
func isOver(what string) bool {
	dir := what
	if of := filepath.Dir(filepath.Dir(what)); what == eventlog.TextFile(of) || what == eventlog.DatabaseFile(of) {
		dir = of
	}
	if info, err := os.Stat(filepath.Dir(eventlog.TextFile(dir))); err != nil || !info.IsDir() {
		return false // a copy of a log, or a database elsewhere
	}
	return !request.Alive(dir) && !request.Restarts(dir) && request.Unseen(dir) == nil
}

// read passes all records of a log to each.
func read(what string, each func(eventlog.Record) error) error {
	if strings.HasPrefix(what, "mysql://") {
		at, prefix, err := server(what)
		if err != nil {
			return err
		}
		return database.Read(at, prefix, each)
	}
	info, err := os.Stat(what)
	if errors.Is(err, fs.ErrNotExist) && hasText(what) {
		return readTexts(what, each)
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		text := eventlog.TextFile(what)
		if !hasText(text) {
			file := eventlog.DatabaseFile(what)
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s: %w: there is neither .scr/log nor .scr/log.sqlite (SCR_LOG_ENABLE=1 makes a job write one)", what, ErrEmpty)
			}
			return database.Read(eventlog.Database{File: file}, "", each)
		}
		what = text
	} else if isSQLite(what) {
		return database.Read(eventlog.Database{File: what}, "", each)
	}
	return readTexts(what, each)
}

// server reads the URL of a server. The path of the URL is the database, and its query may
// name a prefix directory: ?prefix=DIR.
func server(text string) (at eventlog.Database, prefix string, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return at, "", errors.New("the URL cannot be read; it is mysql://USER:PASSWORD@HOST/DATABASE") // the error has the password
	}
	at = eventlog.Database{Host: u.Host, User: u.User.Username(), Name: strings.Trim(u.Path, "/")}
	at.Password, _ = u.User.Password()
	if socket := u.Query().Get("socket"); socket != "" {
		at.Host = socket
	}
	if at.Host == "" || at.Name == "" {
		return at, "", errors.New("a URL of a server has a host and a database: mysql://USER:PASSWORD@HOST/DATABASE, or mysql://USER:PASSWORD@/DATABASE?socket=PATH")
	}
	return at, u.Query().Get("prefix"), nil
}

func isSQLite(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	const magic = "SQLite format 3\x00"
	head := make([]byte, len(magic))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == magic
}

// hasText reports whether there is a text log or an older one. After the last record of a job
// that was rotated there are only older ones.
func hasText(path string) bool {
	for n := range eventlog.Rotated + 1 {
		if _, err := os.Stat(eventlog.Rotation(path, n)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// openTexts opens a text log and the older ones, and returns those that are there, the
// newest first. A job may rotate them at the time: since newer ones are opened first, that
// hides none, but the next may be the same file again.
func openTexts(path string) (list []*os.File, err error) {
	var missing error
	var last fs.FileInfo
	for n := range eventlog.Rotated + 1 {
		f, err := os.Open(eventlog.Rotation(path, n))
		if errors.Is(err, fs.ErrNotExist) {
			missing = cmp.Or(missing, err)
			continue
		}
		var info fs.FileInfo
		if err == nil {
			info, err = f.Stat()
		}
		if err != nil {
			closeAll(append(list, f))
			return nil, err
		}
		if last != nil && os.SameFile(last, info) {
			f.Close()
			continue
		}
		list, last = append(list, f), info
	}
	if len(list) == 0 {
		return nil, missing
	}
	return list, nil
}

func closeAll(list []*os.File) {
	for _, f := range list {
		f.Close() // an error of close has no effect: they were read
	}
}

// readTexts reads a text log and the older ones, the oldest first.
func readTexts(path string, each func(eventlog.Record) error) error {
	list, err := openTexts(path)
	if err != nil {
		return err
	}
	defer closeAll(list)
	var bad error
	good := 0
	for _, f := range slices.Backward(list) {
		lines, err := ReadText(f, each)
		good += lines
		var broken *BrokenError
		if err != nil && !errors.As(err, &broken) {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
		if err != nil && bad == nil {
			bad = fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	if good == 0 && bad == nil {
		return fmt.Errorf("%s is empty: %w", path, ErrEmpty)
	}
	return bad
}

// BrokenError says that lines of a text log cannot be read.
type BrokenError struct {
	Lines, Line, Good int // how many; the first of them; how many can be read
	Err               error
}

func (e *BrokenError) Error() string {
	if e.Good == 0 {
		return fmt.Sprintf("this is not the log of a job: line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("%d of %d lines cannot be read and are left out, the first is line %d: %v", e.Lines, e.Lines+e.Good, e.Line, e.Err)
}

func (e *BrokenError) Unwrap() error { return e.Err }

// ReadText passes the records of a text log to each, and returns how many lines are good.
// The error is a *BrokenError if some cannot be read; the others are passed all the same.
func ReadText(in io.Reader, each func(eventlog.Record) error) (good int, err error) {
	b := bufio.NewReaderSize(in, 64<<10)
	var broken *BrokenError
	for n := 1; ; n++ {
		line, cut, err := readLine(b)
		if err == io.EOF && line == "" && !cut {
			break
		}
		if err != nil && err != io.EOF {
			return good, err
		}
		var r eventlog.Record
		bad := errors.New("the line has no end")
		switch {
		case cut:
			bad = fmt.Errorf("the line has more than %d bytes", longest)
		case err == nil:
			r, bad = eventlog.Parse(line)
		}
		if bad != nil {
			if broken == nil {
				broken = &BrokenError{Line: n, Err: bad}
				// A file that is something else is not read to its end.
			}
			if broken.Lines++; good == 0 && broken.Lines >= 1000 {
				break
			}
			if err == io.EOF {
				break
			}
			continue
		}
		good++
		if err := each(r); err != nil {
			return good, err
		}
	}
	if broken != nil {
		broken.Good = good
		return good, broken
	}
	return good, nil
}

// readLine returns the next line without its end. It is cut, and "", if it is too long. At
// the end of the file it returns io.EOF, with what has no end of line.
func readLine(b *bufio.Reader) (line string, cut bool, err error) {
	var whole []byte
	for {
		part, err := b.ReadSlice('\n')
		if !cut {
			whole = append(whole, part...)
		}
		if len(whole) > longest {
			whole, cut = nil, true
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		return strings.TrimSuffix(string(whole), "\n"), cut, err
	}
}
