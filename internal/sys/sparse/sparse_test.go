package sparse

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// onRAM returns a new file on a RAM disk, where the tests know the size of pages.
func onRAM(t *testing.T) *os.File {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "goscr-test-")
	if err != nil {
		t.Skip("no /dev/shm here")
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// extents lists the beginnings of data and of holes up to size.
func extents(f *os.File, size int64) (data, holes []int64) {
	var e Extents
	for at := int64(0); at < size; {
		if !e.Known(at) {
			e.Find(f, at)
		}
		n, hole := e.Alike(at, size-at)
		if hole {
			holes = append(holes, at)
		} else {
			data = append(data, at)
		}
		at += n
	}
	return data, holes
}

func TestExtents(t *testing.T) {
	for name, test := range map[string]struct {
		written []int64
		ends    int64
		data    []int64
		holes   []int64
	}{
		"dense":               {[]int64{0, 1, 2, 3}, 4, []int64{0}, nil},
		"a hole":              {[]int64{0, 3}, 4, []int64{0, 3}, []int64{1}},
		"at the beginning":    {[]int64{3}, 4, []int64{3}, []int64{0}},
		"at the end":          {[]int64{0}, 4, []int64{0}, []int64{1}},
		"nothing but":         {nil, 4, nil, []int64{0}},
		"shorter than it was": {[]int64{0}, 2, []int64{0, 2}, []int64{1}}, // reading the rest meets the end
	} {
		f := onRAM(t)
		for _, at := range test.written {
			_, err := f.WriteAt(bytes.Repeat([]byte{1}, page), at*page)
			must(t, err)
		}
		must(t, f.Truncate(test.ends*page))
		data, holes := extents(f, 4*page)
		same := len(data) == len(test.data) && len(holes) == len(test.holes)
		for i := 0; same && i < len(data); i++ {
			same = data[i] == test.data[i]*page
		}
		for i := 0; same && i < len(holes); i++ {
			same = holes[i] == test.holes[i]*page
		}
		if !same {
			t.Errorf("%s: data at %d, holes at %d", name, data, holes)
		}
	}
}

// Where the system does not know holes, all is data.
func TestExtents_Unknown(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	if data, holes := extents(r, 1<<40); len(data) != 1 || holes != nil {
		t.Errorf("data at %d, holes at %d", data, holes)
	}
}

// What Write leaves out reads as zeros, also where the file had something else, and takes no room.
func TestWrite(t *testing.T) {
	const pages = 64
	for _, offset := range []int64{0, 100, page - 1} {
		for _, had := range []int64{0, 10*page + 7, 3 * pages * page} {
			f := onRAM(t)
			_, err := f.WriteAt(bytes.Repeat([]byte{7}, int(had)), 0)
			must(t, err)
			buf := make([]byte, pages*page)
			buf[5*page], buf[len(buf)-20*page] = 1, 2
			skipped, err := Write(f, buf, offset, had)
			must(t, err)
			must(t, f.Truncate(offset+int64(len(buf))))
			got, err := os.ReadFile(f.Name())
			must(t, err)
			var st unix.Stat_t
			must(t, unix.Fstat(int(f.Fd()), &st))
			if !skipped || !bytes.Equal(got[offset:], buf) || st.Blocks*512 > 8*page {
				t.Errorf("offset %d of a file that had %d: equal %v, %d bytes allocated", offset, had, bytes.Equal(got[offset:], buf), st.Blocks*512)
			}
		}
	}
}
