package migrate

import "github.com/goscr/goscr/mpi"

// Adopt moves entries of files to the ranks that own the files. It is for storage that
// nodes share, where the owner can read the files without moving them. It is collective;
// the error is agreed.
func (m *Migration) Adopt() error {
	me := m.World.Rank()
	send := map[int]message{}
	for _, rank := range m.Maps.Ranks(m.ID) {
		files, _ := m.Maps.Expected(m.ID, rank)
		if rank == me || rank >= m.World.Size() || files < 0 || m.Device == "" {
			continue
		}
		send[rank] = message{Device: m.Device, Files: files, List: m.whole(rank)}
	}
	m.offers = nil // entries move
	offered, err := exchange(m.World, send)
	if err != nil {
		return err
	}
	whole := m.Maps.Whole(m.ID, me)
	taken := map[int]message{}
	for rank, o := range offered {
		if o.Device != m.Device {
			continue
		}
		taken[rank] = message{}
		if !whole {
			m.take(o)
		}
	}
	if err := mpi.Agree(m.World, m.Maps.Fold()); err != nil {
		return err
	}
	answers, err := exchange(m.World, taken)
	if err != nil {
		return err
	}
	for rank := range answers {
		m.Forget(rank)
	}
	return mpi.Agree(m.World, m.Maps.Fold())
}

// take enters those of the offered files that are whole.
func (m *Migration) take(offered message) {
	me := m.World.Rank()
	for i := range offered.List {
		one := offered.List[i : i+1]
		if one.place(m.Dir) == nil && one[0].Meta.Check(one[0].Path) == nil {
			m.Maps.Map.AddFile(m.ID, me, one[0].Path, one[0].Meta)
		}
	}
	known, _ := m.Maps.Expected(m.ID, me)
	m.Maps.SetExpected(m.ID, me, max(known, offered.Files), m.World.Size())
}
