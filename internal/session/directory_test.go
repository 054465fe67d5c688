package session

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/prefix/snapshot"
	"github.com/goscr/goscr/mpi"
)

// ownFiles are the files that a rank writes in its directory in a step, with what they hold. All
// ranks use the same names; rank 3 writes none.
func ownFiles(step, rank int) map[string]string {
	if rank == 3 {
		return nil
	}
	files := map[string]string{"state.dat": fmt.Sprintf("rank %d, step %d\n", rank, step)}
	for i := range rank {
		files[fmt.Sprintf("sub/%d/part", i)] = strings.Repeat(fmt.Sprintf("%d %d %d\n", step, rank, i), 100)
	}
	return files
}

// writeOwn writes the files of a step in the rank's directory.
func writeOwn(s *Session, rank, step int) error {
	dir, err := s.Directory()
	if err != nil {
		return err
	}
	if again, err := s.Directory(); again != dir || err != nil {
		return fmt.Errorf("once more, the directory is %s, %v", again, err)
	}
	for name, data := range ownFiles(step, rank) {
		path := filepath.Join(dir, name)
		if routed, err := s.Route(path); routed != path || err != nil {
			return fmt.Errorf("the path of %s is %s, %v", path, routed, err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(data), 0o640); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(dir, "empty"), 0o755)
}

// ownCheckpoint writes a checkpoint with files in the rank's directory and elsewhere.
func ownCheckpoint(s *Session, rank, step int) error {
	if err := s.StartOutput(name(step), Checkpoint); err != nil {
		return err
	}
	return errors.Join(mpi.Agree(s.world, errors.Join(writeOwn(s, rank, step), write(s, contents(step, rank)))), s.CompleteOutput(true))
}

// checkOwn compares what is in the rank's directory with what was written, and nothing else may
// be there.
func checkOwn(dir string, rank, step int) error {
	left := ownFiles(step, rank)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, dir+"/")
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if want, ok := left[name]; !ok || string(data) != want {
			return fmt.Errorf("rank %d: %s has %q, want %q", rank, name, data, want)
		}
		delete(left, name)
		return nil
	})
	if len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("rank %d: %d files are missing in %s", rank, len(left), dir))
	}
	return err
}

// restartOwn restarts from a checkpoint of ownCheckpoint.
func restartOwn(step int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error {
		if got, err := offered(s); got != name(step) || err != nil {
			return fmt.Errorf("offered %q, %v", got, err)
		}
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		dir, err := s.Directory()
		if err == nil {
			err = checkOwn(dir, rank, step)
		}
		for _, f := range contents(step, rank) {
			path, e := s.Route(filepath.Join(s.prefix.Dir, f.name))
			err = errors.Join(err, e, same(path, f))
		}
		return errors.Join(mpi.Agree(s.world, err), s.CompleteRestart(true))
	}
}

// All that is in a rank's directory is protected, flushed, and there again at a restart: from the
// cache, of a lost node, and fetched; compressed and in place.
func TestDirectory(t *testing.T) {
	for _, env := range []string{"", "SCR_FLUSH_COMPRESS=zstd", "SCR_FETCH_BYPASS=1", "SCR_CACHE_BYPASS=1"} {
		t.Run(env, func(t *testing.T) {
			c := newCluster(t, append(strings.Fields(env), "SCR_FLUSH=1")...)
			c.job(four, func(s *Session, rank int) error {
				return errors.Join(ownCheckpoint(s, rank, 1), ownCheckpoint(s, rank, 2))
			})
			c.job(four, restartOwn(2))
			c.lose("b")
			c.job(four, restartOwn(2))
			c.lose("a", "b", "c", "d")
			c.job(four, restartOwn(2))
		})
	}
}

// What an earlier run has left of a dataset with the same number is not part of it.
func TestDirectory_Left(t *testing.T) {
	c := newCluster(t)
	c.job(four, func(s *Session, rank int) error {
		left := c.cached(four[rank], 1, "ckpt.1/"+fmt.Sprintf("rank_%d.files/left", rank))
		if err := os.MkdirAll(filepath.Dir(left), 0o700); err != nil {
			return err
		}
		return errors.Join(os.WriteFile(left, []byte("of a run that was killed"), 0o600), ownCheckpoint(s, rank, 1))
	})
	c.job(four, restartOwn(1))
}

// In the prefix directory goscr deletes nothing that a dataset of the same name may have: the
// checkpoint fails.
func TestDirectory_Taken(t *testing.T) {
	c := newCluster(t, "SCR_CACHE_BYPASS=1")
	var failed everyRank
	c.job(four, func(s *Session, rank int) error {
		if err := ownCheckpoint(s, rank, 1); err != nil {
			return err
		}
		if err := s.StartOutput(name(1), Checkpoint); err != nil {
			return err
		}
		dir, err := s.Directory()
		failed.is(rank, s.CompleteOutput(true))
		if err == nil {
			return fmt.Errorf("the directory is %s", dir)
		}
		return nil
	})
	failed.failed(t, 4, "files is not empty: an earlier dataset has the name of this one")
}

// A link in a rank's directory makes the checkpoint fail on all ranks, and the one before stays.
func TestDirectory_Link(t *testing.T) {
	for _, env := range []string{"SCR_CACHE_BYPASS=0", "SCR_CACHE_BYPASS=1"} {
		t.Run(env, func(t *testing.T) {
			c := newCluster(t, env)
			var failed everyRank
			c.job(four, func(s *Session, rank int) error {
				if err := ownCheckpoint(s, rank, 1); err != nil {
					return err
				}
				if err := s.StartOutput(name(2), Checkpoint); err != nil {
					return err
				}
				err := writeOwn(s, rank, 2)
				if rank == 2 && err == nil {
					dir, e := s.Directory()
					err = errors.Join(e, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
				}
				failed.is(rank, s.CompleteOutput(true))
				return err
			})
			failed.failed(t, 4, "link, in the directory of rank 2, is no regular file")
			c.job(four, restartOwn(1))
		})
	}
}

// There is a directory only while a dataset is written or read.
func TestDirectory_Misplaced(t *testing.T) {
	c := newCluster(t)
	c.job(four, func(s *Session, rank int) error {
		var state *StateError
		if dir, err := s.Directory(); dir != "" || !errors.As(err, &state) {
			return fmt.Errorf("%q, %v", dir, err)
		}
		return checkpoint(s, rank, 1) // it is not spoiled
	})
}

// A program that works in its directory names its files as it likes, and a file below the prefix
// directory is still one of the dataset.
func TestDirectory_Relative(t *testing.T) {
	c := newCluster(t)
	c.job(on(1, "a"), func(s *Session, rank int) error {
		before, err := os.Getwd()
		if err != nil {
			return err
		}
		defer os.Chdir(before)
		if err := s.StartOutput(name(1), Checkpoint); err != nil {
			return err
		}
		dir, err := s.Directory()
		if err != nil {
			return err
		}
		if err := os.Chdir(dir); err != nil {
			return err
		}
		real, err := os.Getwd()
		if err != nil {
			return err
		}
		if path, err := s.Route("x/../state"); path != filepath.Join(real, "state") || err != nil {
			return fmt.Errorf("the path of state is %s, %v", path, err)
		}
		path, err := s.Route(filepath.Join(s.prefix.Dir, "other"))
		if err != nil {
			return err
		}
		if err := errors.Join(os.WriteFile("state", []byte("1"), 0o600), os.WriteFile(path, []byte("2"), 0o600), s.CompleteOutput(true)); err != nil {
			return err
		}
		var files []string
		for _, f := range s.cache.Files(1) {
			if f.Meta.Label() != "" {
				files = append(files, f.Meta.Label())
			}
		}
		if want := []string{"ckpt.1/rank_0.files/state", "other"}; !slices.Equal(files[:min(2, len(files))], want) {
			return fmt.Errorf("the dataset has %q, want %q", files, want)
		}
		return nil
	})
}

// How a program restarts is recorded with the checkpoint, if all ranks say the same.
func TestSetRestartCommand(t *testing.T) {
	c := newCluster(t, "SCR_CACHE_SIZE=3")
	c.job(four, func(s *Session, rank int) error {
		var state *StateError
		if err := s.SetRestartCommand("x"); !errors.As(err, &state) {
			return fmt.Errorf("without a dataset: %v", err)
		}
		for step, command := range []string{"./again 7", fmt.Sprintf("./rank %d", rank), ""} {
			if err := s.StartOutput(name(step+1), Checkpoint); err != nil {
				return err
			}
			if err := errors.Join(write(s, contents(step+1, rank)), s.SetRestartCommand(command), s.CompleteOutput(true)); err != nil {
				return err
			}
		}
		return nil
	})
	list, err := snapshot.List(c.prefix(""))
	if err != nil {
		t.Fatal(err)
	}
	got := map[int]string{}
	for _, s := range list {
		r, err := snapshot.Read(c.prefix(""), s)
		if err != nil {
			t.Fatal(err)
		}
		got[s.Seq] = r.Command
	}
	if want := map[int]string{1: "./again 7", 2: "", 3: ""}; !maps.Equal(got, want) {
		t.Errorf("recorded are %q", got)
	}
	c.says(`the ranks give different commands to restart, rank 0 "./rank 0"`)
}
