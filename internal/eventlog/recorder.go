package eventlog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/report"
)

// Database says where the database of a log is.
type Database struct {
	Host     string // host, host:port or path of a socket; "" is SQLite in File
	User     string
	Password string
	Name     string
	File     string
	Debug    bool // show statements
}

// DatabaseOf returns what a configuration says of the database.
func DatabaseOf(cfg *config.Config) Database {
	return Database{
		Host: cfg.String("SCR_LOG_DB_HOST"), User: cfg.String("SCR_LOG_DB_USER"), Password: cfg.String("SCR_LOG_DB_PASS"),
		Name: cfg.String("SCR_LOG_DB_NAME"), Debug: cfg.Bool("SCR_LOG_DB_DEBUG"),
		File: DatabaseFile(cfg.String("SCR_PREFIX")),
	}
}

// Command is the name of the command that writes to the database for a job.
const Command = "scr_log_recorder"

const (
	// starting is how long the command may take until it has detached itself.
	starting = 10 * time.Second
	// sending is how long it may take to read what it is sent. It reads at once,
	// whatever the database does.
	sending = 5 * time.Second
)

// recorder is a process of the command binary.
//
// It is not a child of the program for longer than it takes to start: the
// program may wait for children of its own, with a handler of SIGCHLD or
// without, and must not find one that it does not know. So what is started
// starts the recorder, in a session of its own, and ends. From then on there is
// only a socket. The recorder writes what it was sent, even if the program is
// killed, and ends when the socket is closed or soon after.
type recorder struct {
	socket *os.File
	raw    syscall.RawConn
	spoken chan struct{} // closed when the recorder has ended
	dead   error
}

// startRecorder starts the command, and sends it where the database is: a
// password does not belong into arguments or environment.
func startRecorder(db Database, log *report.Logger) (Sink, error) {
	path, err := findCommand()
	if err != nil {
		return nil, err
	}
	// A socket and not a pipe: to write to it raises no signal when the other end
	// is gone.
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(fds[1]), Command)
	if err := unix.SetNonblock(fds[0], true); err != nil { // so that it can have deadlines
		return nil, errors.Join(err, unix.Close(fds[0]), theirs.Close())
	}
	r := &recorder{socket: os.NewFile(uintptr(fds[0]), "socket to "+Command), spoken: make(chan struct{})}
	if r.raw, err = r.socket.SyscallConn(); err == nil {
		err = launch(path, theirs)
	}
	if err == nil {
		err = r.send(db)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w%s", err, r.lastWords()), r.socket.Close())
	}
	go r.listen(log)
	return r, nil
}

// lastWords is what a recorder that did not start has said.
func (r *recorder) lastWords() string {
	if r.socket.SetReadDeadline(time.Now().Add(time.Second)) != nil {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(r.socket, 1000))
	if len(text) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(text))
}

// launch runs the command until it has detached itself.
func launch(path string, socket *os.File) error {
	defer socket.Close()
	cmd := exec.Command(path)
	cmd.Args[0] = Command
	cmd.Stdin, cmd.Stdout, cmd.Stderr = socket, socket, socket
	cmd.Dir = "/" // not one that somebody wants to unmount
	if err := cmd.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(starting, func() { cmd.Process.Kill() })
	defer late.Stop()
	err := cmd.Wait()
	// A handler of the program's may have waited for all its children.
	if err == nil || errors.Is(err, unix.ECHILD) {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}

// findCommand looks for the command beside the library or program that this
// code is in, in the bin directory next to its directory, and in PATH.
func findCommand() (string, error) {
	var tried []string
	if code := fileOfCode(); code != "" {
		dir := filepath.Dir(code)
		tried = append(tried, filepath.Join(dir, Command), filepath.Join(dir, "..", "bin", Command))
		for _, path := range tried {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(Command)
	if err != nil {
		return "", fmt.Errorf("there is no command %s in PATH, nor %s; install goscr's commands, or set SCR_LOG_DB_ENABLE=0",
			Command, strings.Join(tried, ", nor "))
	}
	return path, nil
}

// fileOfCode returns the file that this function was loaded from.
func fileOfCode() string {
	pc := uint64(reflect.ValueOf(fileOfCode).Pointer())
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line) // begin-end, permissions, offset, device, inode, path
		if len(f) < 6 {
			continue
		}
		from, to, _ := strings.Cut(f[0], "-")
		begin, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && begin <= pc && pc < end {
			_, path, _ := strings.Cut(line, "/")
			return "/" + strings.TrimSuffix(path, "\n")
		}
	}
	return ""
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
				return false // again when there is room
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
		r.dead = fmt.Errorf("%s does not listen (%w); no more events are logged to the database", Command, err)
	}
	return r.dead
}

// listen tells people what the recorder has to say, until it ends.
func (r *recorder) listen(log *report.Logger) {
	defer close(r.spoken)
	lines := bufio.NewReader(r.socket)
	for {
		line, err := lines.ReadString('\n')
		if line = strings.TrimSpace(line); line != "" {
			log.WarnOnce("event log: %s", line)
		}
		if err != nil {
			return
		}
	}
}

// Close tells the recorder that there is no more to come, and waits until it
// has written everything.
func (r *recorder) Close() error {
	err := r.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) }) // fails if it has died
	if err == nil {
		<-r.spoken
	}
	return errors.Join(err, r.socket.Close())
}

// Receive is the recorder's end: it returns where the database is, and a
// function for the records that follow, which ends with io.EOF.
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
