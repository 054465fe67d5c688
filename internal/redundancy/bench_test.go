package redundancy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/partner"
	"github.com/goscr/goscr/internal/redundancy/rs"
	"github.com/goscr/goscr/internal/redundancy/xor"
	"github.com/goscr/goscr/internal/sys/checksum"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// cpu is the processor time that the process has used.
func cpu(b *testing.B) time.Duration {
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// BenchmarkEncode is encoding in a set of 4, 32 MiB a member, without an MPI in
// between. Beside the time it reports, in per cent of the processor time that
// encoding takes,
//
//	checksums-%   how much of that the checksums of files and of blocks of
//	              redundancy are: what taking them of as many bytes takes, from
//	              a piece that is in the processor's cache, as when encoding
//	verify-%      what reading everything and comparing checksums takes
func BenchmarkEncode(b *testing.B) {
	const members, bytes, piece = 4, 32 << 20, 256 << 10
	for _, scheme := range []redundancy.Scheme{xor.Scheme(), partner.Scheme(1), rs.Scheme(2)} {
		b.Run(scheme.Name(), func(b *testing.B) {
			root, err := os.MkdirTemp("/dev/shm", "goscr-bench-")
			if err != nil {
				b.Skip(err)
			}
			defer os.RemoveAll(root)
			files, made := make([][]redundancy.File, members), make([][]redundancy.File, members)
			for m := range files {
				path := filepath.Join(root, fmt.Sprint(m), "file")
				f := redundancy.File{Path: path, Meta: meta.New("file", meta.Full, members)}
				data := make([]byte, bytes)
				for i := range data {
					data[i] = byte(i * (m + 3) >> 7)
				}
				if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
					b.Fatal(err)
				}
				if err := os.WriteFile(path, data, 0o600); err != nil {
					b.Fatal(err)
				}
				if err := f.Meta.Record(path); err != nil {
					b.Fatal(err)
				}
				f.Meta.SetComplete(true)
				files[m] = []redundancy.File{f}
			}
			run := func(f func(j *redundancy.Job, me int) error) {
				_, err := local.Run(members, local.Options{}, func(c mpi.Comm) error {
					set := redundancy.NewSet(c, c.Rank())
					return f(&redundancy.Job{
						Set: set, Ranks: members, Dir: filepath.Join(root, fmt.Sprint(c.Rank())), Piece: piece,
						Dataset:  dataset.New(1, "c", dataset.Checkpoint, 1, dataset.Owner{}, time.Unix(0, 0)),
						Register: func(redundancy.File) error { return nil },
					}, c.Rank())
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			encode := func() {
				run(func(j *redundancy.Job, me int) (err error) {
					made[me], err = scheme.Encode(j, files[me])
					return err
				})
			}
			encode() // the redundancy files are written over from here on
			b.SetBytes(members * bytes)
			before, n := cpu(b), 0
			for b.Loop() {
				encode()
				n++
			}
			encoding := (cpu(b) - before) / time.Duration(n)
			b.StopTimer()

			total := int64(members * bytes)
			for _, files := range made {
				total += files[0].Meta.Size()
			}
			buf, sum := make([]byte, piece), uint32(0)
			before = cpu(b)
			const often = 8 // it takes little time, which is hard to measure
			for at := int64(0); at < often*total; at += piece {
				sum = checksum.Update(sum, buf)
			}
			summing := (cpu(b) - before) / often
			before = cpu(b)
			run(func(j *redundancy.Job, me int) error {
				return scheme.Verify(j, append([]redundancy.File{files[me][0]}, made[me]...))
			})
			verifying := cpu(b) - before
			b.ReportMetric(100*summing.Seconds()/encoding.Seconds(), "checksums-%")
			b.ReportMetric(100*verifying.Seconds()/encoding.Seconds(), "verify-%")
			b.ReportMetric(float64(total)/summing.Seconds()/1e9, "checksum-GB/s")
			_ = sum
		})
	}
}
