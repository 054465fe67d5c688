package eventlog

import (
	"fmt"
	"io"
	"log/syslog"
	"os"
	"path/filepath"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/descriptors"
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
// when a user moves the old one away.
type textFile struct{ path string }

// Write adds a line with a single write, because jobs and commands share the file.
func (t textFile) Write(r Record) error {
	f, err := descriptors.OpenFile(t.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(r.Line() + "\n")
	if e := f.Close(); err == nil {
		err = e
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
