package eventlog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/sys/detached"
)

// Database says where the database of a log is.
type Database struct {
	Host     string // host, host:port or path of a socket; "" for SQLite in File
	User     string
	Password string
	Name     string
	File     string
	Debug    bool // show the statements
}

// DatabaseOf returns the settings of the database in a configuration.
func DatabaseOf(cfg *config.Config) Database {
	return Database{
		Host: cfg.LogDBHost, User: cfg.LogDBUser, Password: cfg.LogDBPass,
		Name: cfg.LogDBName, Debug: cfg.LogDBDebug,
		File: DatabaseFile(cfg.Prefix),
	}
}

// Command is the name of the command that writes to the database for a job.
const Command = "scr_log_recorder"

// sending is how long the command may take to read a record from the socket. It reads at
// once, even if the database does not answer, so that this is ample.
const sending = 5 * time.Second

// recorder is a process of the command binary that writes records to the database.
//
// Only a socket connects it to the program (see package detached). It writes all records
// that were sent, even if the program is killed, and ends soon after the socket is closed.
type recorder struct {
	socket *os.File
	raw    syscall.RawConn
	ended  chan struct{} // closed when the recorder has ended
	dead   error         // of the first record that could not be sent; no more are sent
}

// startRecorder starts the command, and sends it the settings of the database through the
// socket: other users could read a password in arguments or in the environment.
func startRecorder(db Database, log *report.Logger) (Sink, error) {
	path, err := detached.Find(Command, "SCR_LOG_DB_ENABLE=0")
	if err != nil {
		return nil, err
	}
	// This is not a pipe, because a write to a pipe raises SIGPIPE when the other end is
	// closed; a socket has MSG_NOSIGNAL.
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(fds[1]), Command)
	if err := unix.SetNonblock(fds[0], true); err != nil { // so that it can have deadlines
		return nil, errors.Join(err, unix.Close(fds[0]), theirs.Close())
	}
	r := &recorder{socket: os.NewFile(uintptr(fds[0]), "socket to "+Command), ended: make(chan struct{})}
	if r.raw, err = r.socket.SyscallConn(); err == nil {
		err = detached.Launch(path, []string{Command}, theirs)
	}
	theirs.Close() // else reads would not return io.EOF once the recorder has ended
	if err == nil {
		err = r.send(db)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w%s", err, r.reason()), r.socket.Close())
	}
	go r.listen(log)
	return r, nil
}

// reason returns the message of a recorder that could not start, "" if it wrote none.
func (r *recorder) reason() string {
	if r.socket.SetReadDeadline(time.Now().Add(time.Second)) != nil {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(r.socket, 1000))
	if len(text) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(text))
}

// Write sends a record.
func (r *recorder) Write(record Record) error { return r.send(record) }

func (r *recorder) send(v any) error {
	if r.dead != nil {
		return r.dead
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if err := r.socket.SetWriteDeadline(time.Now().Add(sending)); err != nil {
		return err
	}
	var failed error
	err = r.raw.Write(func(fd uintptr) bool {
		for len(data) > 0 {
			n, err := unix.SendmsgN(int(fd), data, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
			switch {
			case errors.Is(err, unix.EAGAIN):
				return false // the socket is full: Write calls this again when it is not
			case errors.Is(err, unix.EINTR):
			case err != nil:
				failed = err
				return true
			default:
				data = data[n:]
			}
		}
		return true
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		r.dead = fmt.Errorf("%s cannot be reached (%w); no more events are logged to the database", Command, err)
	}
	return r.dead
}

// listen reports the messages of the recorder until it ends.
func (r *recorder) listen(log *report.Logger) {
	defer close(r.ended)
	failed := guarded(func() error {
		lines := bufio.NewReader(r.socket)
		for {
			line, err := lines.ReadString('\n')
			if line = strings.TrimSpace(line); line != "" {
				log.WarnOnce("event log: %s", line)
			}
			if err != nil {
				return nil // it has ended
			}
		}
	})
	if failed != nil {
		log.WarnOnce("event log: %v", failed)
	}
}

// Close tells the recorder that no more records follow, and waits until it has ended.
func (r *recorder) Close() error {
	err := r.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) }) // fails if the recorder has ended
	if err == nil {
		<-r.ended
	}
	return errors.Join(err, r.socket.Close())
}

// Receive reads the recorder's end of the socket. It returns the settings of the database,
// and a function that returns the next record, or io.EOF after the last.
func Receive(in io.Reader) (db Database, next func() (Record, error), err error) {
	d := json.NewDecoder(in)
	if err := d.Decode(&db); err != nil {
		return db, nil, fmt.Errorf("%s is started by jobs that log to a database, with its settings on standard input: %w", Command, err)
	}
	return db, func() (r Record, err error) {
		err = d.Decode(&r)
		return r, err
	}, nil
}
