// Package metrics keeps a file of metrics of a job, in the text format of Prometheus, for the
// textfile collector of node_exporter: what the records of the log add up to.
//
// One process writes one file: rank 0 of a job writes goscr_JOBID.prom, and scr_run
// goscr_run_JOBID.prom. Counters begin at 0 in each process, as Prometheus expects of them.
package metrics

import (
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/sys/descriptors"
)

const (
	begins = "goscr_"
	ends   = ".prom" // node_exporter reads no other files
	// stale is the age at which a file is deleted. A job that continues writes its file again.
	stale = 24 * time.Hour
)

// File is a sink of the log that adds records up, and writes the file when it is worth it.
type File struct {
	path   string
	sums   sums
	state  state
	labels []label // of all metrics
}

// state is what is known of the run so far.
type state struct {
	scheme  string
	died    bool          // an earlier run of the job has not ended by itself
	begun   map[int]begun // checkpoints that may become the newest in a place, by their ids
	rebuilt map[int]bool  // datasets of which files were rebuilt
	fetched map[int]bool
	newest  map[string]int64 // when the newest checkpoint in a place was begun
}

// begun is when a checkpoint was begun, and where.
type begun struct {
	at     int64 // in microseconds since 1970
	bypass bool  // the program writes it to the prefix directory
}

// remembered is the number of checkpoints of which state.begun has the newest. An older one
// that is flushed later does not change when the newest in the prefix directory was begun.
const remembered = 1000

// Open returns the file of a process in a directory, and deletes files of jobs that are long
// over. part is "" for a job, and "run_" for scr_run.
func Open(dir, part string, job eventlog.Job) *File {
	sweep(dir, time.Now())
	return &File{
		path:   filepath.Join(dir, begins+part+fileName(job)+ends),
		labels: []label{{"jobid", job.ID}, {"user", job.User}},
		state:  state{begun: map[int]begun{}, rebuilt: map[int]bool{}, fetched: map[int]bool{}, newest: map[string]int64{}},
	}
}

// Of returns the file of rank 0 as the configuration asks for it, nil if it does not.
func Of(cfg *config.Config) eventlog.Sink {
	if cfg.MetricsDir == "" {
		return nil
	}
	return Open(cfg.MetricsDir, "", eventlog.JobOf(cfg))
}

// fileName returns a name for the file of a job. Two prefix directories have two files.
func fileName(job eventlog.Job) string {
	id := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, job.ID)
	return fmt.Sprintf("%.64s_%08x", id, crc32.ChecksumIEEE([]byte(job.User+"\x00"+job.ID+"\x00"+job.Prefix)))
}

// sweep deletes files that no job has written for long. Those of other users stay if the
// directory is sticky; their next job deletes them.
func sweep(dir string, now time.Time) {
	list, err := descriptors.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), begins) || !strings.HasSuffix(e.Name(), ends) {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > stale {
			_ = os.Remove(filepath.Join(dir, e.Name())) // another job may have done it
		}
	}
}

// Write adds a record.
func (f *File) Write(r eventlog.Record) error {
	if !f.add(r) {
		return nil
	}
	return f.write()
}

// Close leaves the file as it is: its last values are read after the job has ended.
func (*File) Close() error { return nil }

// write replaces the file, which node_exporter may read at any time, as another user.
func (f *File) write() error {
	temporary := fmt.Sprintf("%s.%d", f.path, os.Getpid()) // does not end in .prom
	// One that a killed process has left is replaced. Other users may write to the directory: what
	// they make there meanwhile, such as a link to another file, is not written to.
	_ = os.Remove(temporary)
	to, err := descriptors.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	_, err = to.WriteString(f.sums.text())
	if err == nil {
		err = to.Chmod(fs.FileMode(0o644)) // whatever the umask of the program
	}
	if e := to.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(temporary, f.path)
	}
	if err != nil {
		_ = os.Remove(temporary)
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}
