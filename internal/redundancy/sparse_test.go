package redundancy_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/partner"
	"github.com/goscr/goscr/internal/redundancy/rs"
	"github.com/goscr/goscr/internal/redundancy/xor"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/storagetest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ramDir is a new directory on a RAM disk.
func ramDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "goscr-test-")
	if err != nil {
		t.Skip("no /dev/shm here")
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// little is more than a sparse file of these tests may take, and much less than its size.
const little = 2 << 20

func small(t *testing.T, what, path string) {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(path, &st))
	if got := st.Blocks * 512; got > little {
		t.Errorf("%s: %s takes %d bytes of %d", what, path, got, st.Size)
	}
}

// sparseFile makes a file of so many bytes, most of which are a hole.
func sparseFile(t testing.TB, path string, size int64, ranks int) redundancy.File {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	f, err := os.Create(path)
	must(t, err)
	for i, at := range []int64{0, size / 3, size - size/4} { // it ends in a hole
		_, err = f.WriteAt([]byte{byte(1 + i)}, at)
		must(t, err)
	}
	must(t, errors.Join(f.Truncate(size), f.Close()))
	file := redundancy.File{Path: path, Meta: meta.New(filepath.Base(path), meta.Full, ranks)}
	must(t, file.Record())
	file.Meta.SetComplete(true)
	return file
}

func crcOf(t testing.TB, path string) uint32 {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	sum := crc32.NewIEEE()
	_, err = io.Copy(sum, f)
	must(t, err)
	return sum.Sum32()
}

// Holes stay holes, in the files of the program, in redundancy files, and in what is rebuilt.
func TestSparse(t *testing.T) {
	const members, size = 4, 32 << 20
	for _, scheme := range []redundancy.Scheme{redundancy.Single{}, xor.Scheme(), partner.Scheme(1), rs.Scheme(2)} {
		for _, behind := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,behind=%t", scheme.Name(), behind), func(t *testing.T) {
				root := ramDir(t)
				files := make([][]redundancy.File, members)
				var crcs []uint32
				for m := range files {
					files[m] = []redundancy.File{sparseFile(t, filepath.Join(root, fmt.Sprint(m), "file"), size+int64(m), members)}
					crcs = append(crcs, crcOf(t, files[m][0].Path))
				}
				run := func(f func(j *redundancy.Job, me int) error) {
					t.Helper()
					_, err := local.Run(members, local.Options{}, func(c mpi.Comm) error {
						set := redundancy.NewSet(c, c.Rank())
						return f(&redundancy.Job{
							Set: set, Ranks: members, Dir: filepath.Join(root, fmt.Sprint(c.Rank())), Piece: 256 << 10, Behind: behind,
							Dataset:  dataset.New(1, "c", dataset.Checkpoint, 1, dataset.Owner{}, time.Unix(0, 0)),
							Register: func(redundancy.File) error { return nil },
						}, c.Rank())
					})
					must(t, err)
				}
				verify := func(what string) {
					t.Helper()
					run(func(j *redundancy.Job, me int) error { return scheme.Verify(j, files[me]) })
					for m := range files {
						for _, f := range files[m] {
							small(t, what, f.Path)
						}
						if got, _ := files[m][0].Meta.CRC(); got != crcs[m] || crcOf(t, files[m][0].Path) != crcs[m] {
							t.Errorf("%s: checksum 0x%08x of %s, was 0x%08x", what, got, files[m][0].Path, crcs[m])
						}
					}
				}
				encode := func() {
					t.Helper()
					run(func(j *redundancy.Job, me int) error {
						made, err := scheme.Encode(j, files[me][:1])
						files[me] = append(files[me][:1:1], made...)
						return err
					})
				}
				encode()
				verify("encoded")
				if len(files[0]) == 1 {
					return
				}
				// A recycled file with other contents.
				for m := range files {
					f, err := os.OpenFile(files[m][1].Path, os.O_RDWR, 0)
					must(t, err)
					for at := int64(0); at < size/3; at += 3_000_000 {
						_, err = f.WriteAt([]byte("before"), at)
						must(t, err)
					}
					must(t, errors.Join(f.Truncate(size/4), f.Close()))
				}
				encode()
				verify("encoded over another")
				lost := []int{1}
				for _, f := range files[1] {
					must(t, os.Remove(f.Path))
				}
				run(func(j *redundancy.Job, me int) error {
					after, err := scheme.Recover(j, files[me], lost)
					if slices.Contains(lost, me) {
						files[me] = after
					}
					return err
				})
				verify("rebuilt")
			})
		}
	}
}

// On storage that has room for the data of a file, but not for its holes, the file can be read.
func TestSparse_NoRoomForHoles(t *testing.T) {
	const size = 64 << 20
	dir := storagetest.Dir()
	if dir == "" {
		storagetest.AgainMounted(t, t.TempDir(), `mount -t tmpfs -o size=2m none "$dir"`)
		return
	}
	f := sparseFile(t, filepath.Join(dir, "file"), size, 1)
	want := crcOf(t, f.Path)
	_, err := redundancy.Single{}.Encode(&redundancy.Job{Piece: 1 << 20}, []redundancy.File{f})
	if got, _ := f.Meta.CRC(); err != nil || got != want {
		t.Errorf("checksum 0x%08x instead of 0x%08x: %v", got, want, err)
	}
}

// What cannot be read is called by its cause, and only what has changed is corrupt.
func TestUnreadable_Permission(t *testing.T) {
	dir := storagetest.Dir()
	if dir == "" {
		dir = ramDir(t)
		f := sparseFile(t, filepath.Join(dir, "file"), 1<<20, 1)
		must(t, errors.Join(os.Chmod(dir, 0o755), os.Chmod(f.Path, 0)))
		storagetest.AgainUnprivileged(t, dir)
		return
	}
	f := redundancy.File{Path: filepath.Join(dir, "file"), Meta: meta.New("file", meta.Full, 1)}
	f.Meta.SetSize(1 << 20)
	_, made := redundancy.Open(f.Path)
	for _, err := range []error{redundancy.Verify([]redundancy.File{f}, 1000), made} {
		if !errors.Is(err, redundancy.ErrCorrupt) || err.Error() != f.Path+" cannot be read: permission denied" {
			t.Error(err)
		}
	}
}

func TestUnreadable(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{&os.PathError{Op: "read", Path: "x", Err: unix.EIO}, "x cannot be read: input/output error"},
		{fmt.Errorf("byte 7: %w", unix.EIO), "x cannot be read: byte 7: input/output error"},
		{&trust.LinkError{Link: "l", Owner: 7, Root: "r"}, "x cannot be read: l is a symbolic link of user 7, which goscr does not follow for user " + fmt.Sprint(os.Geteuid()) + ": remove it"},
		{errors.New("ends at byte 3 of 7"), "x is corrupt: ends at byte 3 of 7"},
	} {
		err := redundancy.Unreadable("x", test.err)
		if err.Error() != test.want || !errors.Is(err, redundancy.ErrCorrupt) {
			t.Errorf("%v instead of %q", err, test.want)
		}
	}
}

// A file that is cut after a part of it was read is shorter, which is what the error says.
func TestLogical_IsCut(t *testing.T) {
	const size = 1 << 20
	path := filepath.Join(ramDir(t), "file")
	must(t, os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600))
	f := redundancy.File{Path: path, Meta: meta.New("file", meta.Full, 1)}
	must(t, f.Record())
	l := redundancy.OpenLogical([]redundancy.File{f})
	l.Read(make([]byte, 1000), 0, 0)
	must(t, os.Truncate(path, 3000))
	l.Read(make([]byte, size-1000), 1000, 0)
	if err := l.Close(); err == nil || err.Error() != path+" is corrupt: ends at byte 3000 of 1048576" {
		t.Error(err)
	}
}
