package migrate

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/goscr/goscr/internal/redundancy"
)

// The nodes of a job may share the directory of a cache although nothing says so. Then a rank's
// file on another node is the file that the rank itself has at that path: if it were sent, it
// would be written over while it is read, and deleted afterwards. So ranks compare files before
// they send or delete any.

// identity is what a file has on all nodes that see it. The number of the device is not the same
// on all nodes. It is "" if there is no file.
func identity(path string) string {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d %d %d %d", st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
}

// identities are those of files, by their names.
func identities(files []redundancy.File) map[string]string {
	ids := map[string]string{}
	for _, f := range files {
		if id := identity(f.Path); id != "" {
			ids[f.Meta.Label()] = id
		}
	}
	return ids
}

// here returns those of the files of another rank, by their names, that the caller has at the
// path at which a file of its own would be: they are the same files.
func (m *Migration) here(ids map[string]string) (names []string) {
	for name, id := range ids {
		if filepath.IsLocal(name) && identity(filepath.Join(m.Dir, name)) == id {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// keep enters files that are on their way, but are here already, in the filemap of their owner
// and tells the sender. It returns those of the coming and of the outgoing files that have to be
// sent. No file is entered nowhere at any instant.
func (m *Migration) keep(coming message, outgoing fileList, to, from int, missed error) (in, out fileList, failed error) {
	var names []string
	if missed == nil {
		names = m.here(coming.Places)
	}
	in = slices.Clone(coming.List)
	var kept fileList
	for i := 0; i < len(in); i++ {
		if slices.Contains(names, in[i].Meta.Label()) {
			kept = append(kept, in[i])
			in = slices.Delete(in, i, i+1)
			i--
		}
	}
	if failed = cmp.Or(missed, m.secure(kept)); failed != nil {
		names = nil
		in = coming.List
	}
	answer := swap(m.World, message{Names: names}, from, to)
	for _, f := range outgoing {
		if slices.Contains(answer.Names, f.Meta.Label()) {
			m.Maps.RemoveFile(m.ID, to, f.Path)
			continue
		}
		out = append(out, f)
	}
	return in, out, failed
}

// leftovers returns the identities of those files of other ranks that are to be deleted, as
// messages to their owners.
func (m *Migration) leftovers(staying map[int]bool) map[int]message {
	send := map[int]message{}
	if m.Device != "" {
		return send
	}
	for _, rank := range m.Maps.Ranks(m.ID) {
		if rank == m.World.Rank() || staying[rank] || rank < 0 || rank >= m.World.Size() {
			continue
		}
		if ids := identities(m.Files(rank)); len(ids) > 0 {
			send[rank] = message{Places: ids}
		}
	}
	return send
}

// leave removes from the filemap those of the leftovers that are the files of their owner at
// the same path, so that they are not deleted. It is collective.
func (m *Migration) leave(left map[int]message) error {
	asked, err := exchange(m.World, left)
	if err != nil {
		return err
	}
	answers := map[int]message{}
	for rank, q := range asked {
		answers[rank] = message{Names: m.here(q.Places)}
	}
	answers, err = exchange(m.World, answers)
	for rank, a := range answers {
		for _, f := range m.Files(rank) {
			if slices.Contains(a.Names, f.Meta.Label()) {
				m.Maps.RemoveFile(m.ID, rank, f.Path)
			}
		}
	}
	return err
}
