package migrate

import "github.com/goscr/goscr/internal/redundancy"

// files returns the files of a rank that are entered in the caller's filemap.
func (m *Migration) files(rank int) []redundancy.File {
	var files []redundancy.File
	for _, path := range m.Maps.Files(m.ID, rank) {
		files = append(files, redundancy.File{Path: path, Meta: m.Maps.Meta(m.ID, rank, path)})
	}
	return files
}

// whole returns those of a rank's files that are all there.
func (m *Migration) whole(rank int) []redundancy.File {
	var whole []redundancy.File
	for _, f := range m.files(rank) {
		if f.Meta.Check(f.Path) == nil {
			whole = append(whole, f)
		}
	}
	return whole
}

// named returns those of a rank's files that have one of the names.
func (m *Migration) named(rank int, names []string) []redundancy.File {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	var files []redundancy.File
	for _, f := range m.files(rank) {
		if wanted[f.Meta.Label()] {
			files = append(files, f)
		}
	}
	return files
}

// deleteFiles deletes a rank's files.
func (m *Migration) deleteFiles(rank int) error {
	for _, f := range m.files(rank) {
		if err := m.Delete(rank, f.Path); err != nil {
			return err
		}
	}
	return nil
}

// discard deletes a file that is not needed here. If that is not possible it is in
// the way, and no more.
func (m *Migration) discard(rank int, f redundancy.File) {
	if err := m.Delete(rank, f.Path); err != nil {
		m.Log.Warn("dataset %d: a file of rank %d that is not needed here cannot be deleted: %v", m.ID, rank, err)
	}
}
