package session

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/goscr/goscr/internal/sys/checksum"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/test/sample"
)

func TestSizes_NoFilesAtAll(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error {
		if err := s.StartOutput(name(4), Checkpoint); err != nil {
			return err
		}
		return s.CompleteOutput(true)
	})
	check := func(s *Session, rank int) error {
		got, err := offered(s)
		if err == nil && got != name(4) {
			err = fmt.Errorf("offered %q", got)
		}
		return err
	}
	c.job(four, check)
	c.lose("b")
	c.job(four, check)
	c.lose(four...)
	c.job(four, check)
}

func TestSizes_OneRankHasAll(t *testing.T) {
	t.Parallel()
	for _, who := range sample.Of(t, []int{0, 1, 2, 3}, 1, 2) {
		c := newCluster(t, "SCR_FLUSH=1")
		files := func(step, rank int) []file {
			if rank != who {
				return nil
			}
			return contents(step, 0)
		}
		read := func(s *Session, rank int) error {
			if _, err := offered(s); err != nil {
				return err
			}
			_, err := s.StartRestart()
			for _, f := range files(1, rank) {
				if path, e := s.Route(c.prefix(f.name)); e != nil {
					err = e
				} else if e := same(path, f); e != nil {
					err = e
				}
			}
			return mpi.Agree(s.world, err)
		}
		c.job(four, func(s *Session, rank int) error {
			if err := s.StartOutput(name(1), Checkpoint); err != nil {
				return err
			}
			if err := write(s, files(1, rank)); err != nil {
				return err
			}
			return s.CompleteOutput(true)
		})
		for _, node := range four {
			c.lose(node)
			c.job(four, read)
			c.says("rebuilt")
		}
		c.lose(four...)
		c.job(four, read)
	}
}

func TestSizes_TenThousandFiles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("so much data takes seconds; without -short it runs")
	}
	const n = 10_000
	c := newCluster(t, "SCR_MPI_BUF_SIZE=1m")
	nodes := []string{"a", "b"}
	file := func(rank, i int) string { return fmt.Sprintf("ckpt/%d/%d", rank, i) }
	c.job(nodes, func(s *Session, rank int) error {
		if err := s.StartOutput("many", Checkpoint); err != nil {
			return err
		}
		for i := range n {
			path, err := s.Route(c.prefix(file(rank, i)))
			if err == nil {
				err = os.WriteFile(path, fmt.Append(nil, rank, i), 0o600)
			}
			if err != nil {
				return err
			}
		}
		return s.CompleteOutput(true)
	})
	c.lose("b")
	c.job(nodes, func(s *Session, rank int) error {
		if got, err := offered(s); err != nil || got != "many" {
			return fmt.Errorf("offered %q, %v", got, err)
		}
		_, err := s.StartRestart()
		for i := range n {
			path, e := s.Route(c.prefix(file(rank, i)))
			data, e2 := os.ReadFile(path)
			if e != nil || e2 != nil || string(data) != fmt.Sprint(rank, i) {
				err = fmt.Errorf("file %d: %q, %v, %v", i, data, e, e2)
			}
		}
		return mpi.Agree(s.world, err)
	})
}

// A sparse file costs no storage, but all its bytes go through.
func TestSizes_MoreThan2GiB(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("so much data takes seconds; without -short it runs")
	}
	const size = 2<<30 + 12345
	c := newCluster(t, "SCR_COPY_TYPE=SINGLE", "SCR_CRC_ON_DELETE=1", "SCR_MPI_BUF_SIZE=4m", "SCR_FILE_BUF_SIZE=4m")
	path := ""
	tail := []byte("the end")
	c.job([]string{"a"}, func(s *Session, rank int) error {
		err := s.StartOutput("big", Checkpoint)
		if err == nil {
			path, err = s.Route(filepath.Join(c.prefix("big")))
		}
		if err == nil {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err == nil {
			err = os.Truncate(path, size)
		}
		if err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteAt(tail, size-int64(len(tail))); err != nil {
			return err
		}
		if err := s.CompleteOutput(true); err != nil {
			return err
		}
		md := s.cache.Files(1)[0].Meta
		crc, _ := md.CRC()
		want := uint32(0)
		zeros := make([]byte, 1<<20)
		for left := int64(size) - int64(len(tail)); left > 0; left -= int64(len(zeros)) {
			want = checksum.Update(want, zeros[:min(left, int64(len(zeros)))])
		}
		if want = checksum.Update(want, tail); crc != want || md.Size() != size {
			return fmt.Errorf("checksum %#x, want %#x; %d bytes", crc, want, md.Size())
		}
		return nil
	})
}

// Any size that the configuration accepts is one that works.
func TestSizes_OfBuffers(t *testing.T) {
	t.Parallel()
	var cases [][2]string
	for _, scheme := range []string{"SINGLE", "PARTNER", "XOR", "RS"} {
		for _, size := range []string{"1", "15", "17", "300m", "8388607t"} {
			cases = append(cases, [2]string{scheme, size})
		}
	}
	for _, x := range sample.Of(t, cases, 3, 8) {
		scheme, size := x[0], x[1]
		t.Run(scheme+" "+size, func(t *testing.T) {
			c := newCluster(t, "SCR_COPY_TYPE="+scheme, "SCR_MPI_BUF_SIZE="+size, "SCR_FILE_BUF_SIZE="+size, "SCR_FLUSH=1")
			c.job(four, steps(1))
			if scheme != "SINGLE" {
				c.lose("b")
			}
			c.job(four, restarts(1))
			c.lose(four...)
			c.job(four, restarts(1))
		})
	}
}
