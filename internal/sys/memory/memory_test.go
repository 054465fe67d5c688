package memory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/test/storagetest"
)

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	first  = "33 25 0:28 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n"
	second = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
)

func TestTightest(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  Limit
		ok    bool
	}{
		"nothing": {},
		"no limit": {files: map[string]string{
			"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": second,
			"sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/memory.current": "10\n"}},
		"no limit of the first kind": {files: map[string]string{
			"proc/self/cgroup": "4:cpu,memory:/a\n", "proc/self/mountinfo": first,
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "10\n"}},
		"above": {files: map[string]string{ // Slurm limits the job, and not the step
			"proc/self/cgroup": "0::/job_7/step_0\n", "proc/self/mountinfo": "garbage\n" + second,
			"sys/fs/cgroup/job_7/memory.max": "1000\n", "sys/fs/cgroup/job_7/memory.current": "600\n",
			"sys/fs/cgroup/job_7/memory.stat":       "anon 1\ninactive_file 100\nactive_file 50\nshmem 7\n",
			"sys/fs/cgroup/job_7/step_0/memory.max": "max\n", "sys/fs/cgroup/job_7/step_0/memory.current": "6\n"},
			want: Limit{"/job_7", 1000, 450}, ok: true},
		"the tighter of two": {files: map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": second,
			"sys/fs/cgroup/a/memory.max": "1000\n", "sys/fs/cgroup/a/memory.current": "900\n",
			"sys/fs/cgroup/a/b/memory.max": "500\n", "sys/fs/cgroup/a/b/memory.current": "10\n"},
			want: Limit{"/a", 1000, 900}, ok: true},
		"first kind": {files: map[string]string{
			"proc/self/cgroup": "9:name=systemd:/x\n4:memory:/slurm/uid_1/job_7\n0::/\n", "proc/self/mountinfo": second + first,
			"sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.limit_in_bytes": "2000\n", "sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.usage_in_bytes": "700\n",
			"sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.stat": "inactive_file 1\ntotal_inactive_file 200\ntotal_active_file 600\n"},
			want: Limit{"/slurm/uid_1/job_7", 2000, 0}, ok: true},
		"container": {files: map[string]string{ // only its own group is mounted
			"proc/self/cgroup": "4:memory:/docker/17\n", "proc/self/mountinfo": strings.Replace(first, " / ", " /docker/17 ", 1),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "100\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "120\n"},
			want: Limit{"/", 100, 120}, ok: true},
		"mounted elsewhere": {files: map[string]string{
			"proc/self/cgroup": "4:memory:/docker/17\n", "proc/self/mountinfo": strings.Replace(first, " / ", " /docker/18 ", 1),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "100\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "20\n"},
			want: Limit{"/", 100, 20}, ok: true},
		"use that cannot be read": {files: map[string]string{
			"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": second, "sys/fs/cgroup/a/memory.max": "1000\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := tightest(tree(t, c.files))
			if ok != c.ok || ok && got != c.want {
				t.Errorf("%+v, %v; want %+v, %v", got, ok, c.want, c.ok)
			}
			if ok && got.Free() != max(got.Bytes-got.Used, 0) {
				t.Errorf("free: %d", got.Free())
			}
		})
	}
}

// The limit of a real group, with a file on a RAM disk.
func TestTightest_Real(t *testing.T) {
	const limit = 128 << 20
	dir := storagetest.Dir()
	if dir == "" {
		dir, err := os.MkdirTemp("/dev/shm", "goscr-test-")
		if err != nil {
			t.Skip(err)
		}
		defer os.RemoveAll(dir)
		storagetest.AgainInMemory(t, dir, limit)
		return
	}
	before, ok := Tightest()
	if !ok || before.Bytes != limit {
		t.Fatalf("%+v, %v", before, ok)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, 16<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	// What the kernel counts lags a little.
	if after, _ := Tightest(); after.Used-before.Used < 12<<20 {
		t.Errorf("%+v, then %+v", before, after)
	}
}
