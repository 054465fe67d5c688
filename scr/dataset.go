package scr

import (
	"fmt"
	"path/filepath"

	"github.com/goscr/goscr/internal/session"
)

// Dataset is a checkpoint or an output that the program writes, from Begin to Complete, or a
// checkpoint that it reads, from Restart to Complete. A session has one at a time.
type Dataset struct {
	s        *session.Session
	name     string
	dir      string // what the program would write the files to without goscr
	complete func(valid bool) error
	over     bool
}

// Begin begins a dataset. The name, by which users know the dataset, must be the same on all
// ranks; if it is "", a name is made from the dataset's number. Then each rank asks Path
// for the path of each file that it is going to write, writes them, and calls Complete.
func (s *Session) Begin(name string, purpose Flags) (*Dataset, error) {
	if err := s.s.StartOutput(name, session.Flags(purpose)); err != nil {
		return nil, named(err)
	}
	prefix, number := s.s.Reference()
	if name == "" {
		name = fmt.Sprintf("scr.dataset.%d", number)
	}
	return &Dataset{s: s.s, name: name, dir: filepath.Join(prefix, name), complete: s.s.CompleteOutput}, nil
}

// Restart returns the newest checkpoint from which all ranks can restart, nil if there is none. Each rank asks Path
// for the path of each of its files, reads them, and calls Complete. If any rank could not use its files,
// the next Restart returns the checkpoint before.
func (s *Session) Restart() (*Dataset, error) {
	_, ok, err := s.s.HaveRestart()
	if err != nil || !ok {
		return nil, named(err)
	}
	name, err := s.s.StartRestart()
	if err != nil {
		return nil, named(err)
	}
	prefix, _ := s.s.Reference()
	return &Dataset{s: s.s, name: name, dir: filepath.Join(prefix, name), complete: s.s.CompleteRestart}, nil
}

// Name is the name of the dataset.
func (d *Dataset) Name() string { return d.name }

// Path returns the path under which this rank must open a file of the dataset. file is relative to the
// directory that has the name of the dataset, in the prefix directory: there the file goes
// when the dataset is flushed. A path that is absolute must be below the prefix directory. In a
// restart, the last element of the path suffices if only one of the rank's files has it.
// Names must be different from those of other ranks. Path is not collective.
func (d *Dataset) Path(file string) (string, error) {
	if d.over {
		return "", fmt.Errorf("scr: Dataset.Path: %s has been completed", d.name)
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(d.dir, file)
	}
	return d.s.Route(file)
}

// Directory returns a directory of this rank in the dataset, for libraries that choose the names
// of their files. All files in it and below it belong to the dataset when it is
// completed; the names need not be different from those of other ranks. Anything but
// regular files and directories is an error there, and an empty directory is not kept. In
// a restart the directory has these files again. Directory is not collective.
func (d *Dataset) Directory() (string, error) {
	if d.over {
		return "", fmt.Errorf("scr: Dataset.Directory: %s has been completed", d.name)
	}
	return d.s.Directory()
}

// Complete ends what Begin or Restart has begun. valid says whether this rank has written, or read, all its
// files.
//
// If it is true on all ranks, what was written is protected against the loss of nodes, and is flushed to the prefix
// directory if a flush is due; with Options.FlushInBackground the flush continues while the
// program computes, and a later call finishes it. Otherwise the dataset is deleted, and
// the error says why.
//
// If it is false on any rank in a restart, the checkpoint is not used again, and every rank gets an error. If the program
// has refused two checkpoints on all ranks, Restart offers no older one, and returns an
// error: its input may be another.
func (d *Dataset) Complete(valid bool) error {
	if d.over {
		return fmt.Errorf("scr: Dataset.Complete: %s has been completed", d.name)
	}
	d.over = true
	return named(d.complete(valid))
}

// SetRestartCommand says how the program is started to restart from the checkpoint that it is
// writing: a command for a shell, which scr_restart then runs on each rank in place of the
// program; "" for the program as it was started. If it is not the same on all ranks, that is
// logged, and none is recorded. It is collective.
func (d *Dataset) SetRestartCommand(command string) error {
	return named(d.s.SetRestartCommand(command))
}
