package eventlog

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"log/syslog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Sink is a destination of records.
type Sink interface {
	Write(Record) error
	io.Closer
}

// TextFile returns the path of the text log in a prefix directory.
func TextFile(prefix string) string { return filepath.Join(prefix, ".scr", "log") }

// DatabaseFile returns the path of the SQLite database in a prefix directory.
func DatabaseFile(prefix string) string { return filepath.Join(prefix, ".scr", "log.sqlite") }

// textFile appends to a file. It opens the file for each record, so that a new log begins
// when a user, or rotate, moves the old one away.
type textFile struct {
	path string
	most int64 // bytes after which a new file is begun; 0: no limit
}

// openText returns the sink of the text log. A file that has a limit of its age, and has
// reached it, is rotated.
func openText(cfg *config.Config, prefix string) Sink {
	t := textFile{TextFile(prefix), cfg.LogMaxSize}
	if limit := cfg.LogMaxAge; limit > 0 && time.Since(began(t.path)) > limit {
		rotate(t.path, func(fs.FileInfo) bool { return time.Since(began(t.path)) > limit })
	}
	return t
}

// began returns the time of the first line of a log, now if that is not known.
func began(path string) time.Time {
	if f, err := trust.Around(path).OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
		defer f.Close()
		line, _ := bufio.NewReader(io.LimitReader(f, 64)).ReadString('\n')
		stamp, _, _ := strings.Cut(line, ": ")
		if t, err := parseTime(stamp); err == nil {
			return t
		}
	}
	return time.Now()
}

// Rotated is the number of older text logs that are kept: log.1, the newest, to log.4.
const Rotated = 4

// Rotation returns the path of an older text log, or of the log itself if n is 0.
func Rotation(path string, n int) string {
	if n == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, n)
}

// rotate renames a log and the older ones, and deletes the oldest, if the log is due for
// that. If another process does so at the time, or it cannot be done, the log continues.
func rotate(path string, due func(fs.FileInfo) bool) {
	l, err := lock.Try(path+".lock", lock.Exclusive)
	if err != nil || l == nil {
		return
	}
	defer l.Release()
	below := trust.Around(path)
	if info, err := below.Lstat(path); err != nil || !due(info) {
		return
	}
	for n := Rotated; n > 0; n-- {
		_ = below.Rename(Rotation(path, n-1), Rotation(path, n)) // there may be fewer
	}
}

// Write adds a line with a single write, because jobs and commands share the file.
func (t textFile) Write(r Record) error {
	f, err := trust.Append(t.path, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(r.Line() + "\n")
	full := func(info fs.FileInfo) bool { return t.most > 0 && info.Size() >= t.most }
	info, failed := f.Stat()
	if e := f.Close(); err == nil {
		err = e
	}
	if failed == nil && full(info) {
		rotate(t.path, full)
	}
	return err
}

func (textFile) Close() error { return nil }

// system is syslog. It adds the time to messages itself.
type system struct{ to *syslog.Writer }

func openSyslog(cfg *config.Config) (Sink, error) {
	priority := facilities[cfg.LogSyslogFacility] | levels[cfg.LogSyslogLevel]
	network, socket := "", cfg.LogSyslogSocket
	if socket != "" {
		network = "unixgram"
	}
	to, err := syslog.Dial(network, socket, priority, cfg.LogSyslogPrefix)
	if err != nil {
		return nil, fmt.Errorf("syslog: %w", err)
	}
	return system{to}, nil
}

func (s system) Write(r Record) error {
	_, err := io.WriteString(s.to, r.Text())
	return err
}

func (s system) Close() error { return s.to.Close() }

// The values of SCR_LOG_SYSLOG_FACILITY and SCR_LOG_SYSLOG_LEVEL.
var (
	facilities = map[string]syslog.Priority{
		"LOG_USER": syslog.LOG_USER, "LOG_DAEMON": syslog.LOG_DAEMON,
		"LOG_LOCAL0": syslog.LOG_LOCAL0, "LOG_LOCAL1": syslog.LOG_LOCAL1, "LOG_LOCAL2": syslog.LOG_LOCAL2,
		"LOG_LOCAL3": syslog.LOG_LOCAL3, "LOG_LOCAL4": syslog.LOG_LOCAL4, "LOG_LOCAL5": syslog.LOG_LOCAL5,
		"LOG_LOCAL6": syslog.LOG_LOCAL6, "LOG_LOCAL7": syslog.LOG_LOCAL7,
	}
	levels = map[string]syslog.Priority{
		"LOG_ERR": syslog.LOG_ERR, "LOG_WARNING": syslog.LOG_WARNING, "LOG_NOTICE": syslog.LOG_NOTICE,
		"LOG_INFO": syslog.LOG_INFO, "LOG_DEBUG": syslog.LOG_DEBUG,
	}
)
