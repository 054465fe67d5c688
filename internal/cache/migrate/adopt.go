package migrate

import (
	"github.com/goscr/goscr/mpi"
)

// Adopt gives ranks the entries of their files on storage that they share with
// whoever has these, where files need not move for their owners to have them. It
// is collective; the error is agreed.
func (m *Migration) Adopt() error {
	send := map[int]shared{}
	for _, rank := range m.Maps.Ranks(m.ID) {
		files, _ := m.Maps.Expected(m.ID, rank)
		if rank == m.World.Rank() || rank >= m.World.Size() || files < 0 || m.Device == "" {
			continue
		}
		send[rank] = shared{m.Device, files, m.whole(rank)}
	}
	offered, err := exchange(m.World, send, decodeShared)
	if err != nil {
		return err
	}
	mine := m.Maps.Whole(m.ID, m.World.Rank())
	taken := map[int]answer{}
	for rank, s := range offered {
		if s.device != m.Device {
			continue
		}
		taken[rank] = answer{ok: true}
		if !mine {
			m.take(s)
		}
	}
	if err := mpi.Agree(m.World, m.Maps.Fold()); err != nil {
		return err
	}
	answers, err := exchange(m.World, taken, decodeAnswer)
	if err != nil {
		return err
	}
	for rank := range answers {
		m.Forget(rank)
	}
	return mpi.Agree(m.World, m.Maps.Fold())
}

// take enters those of the files offered that are whole.
func (m *Migration) take(s shared) {
	me := m.World.Rank()
	for _, f := range s.whole {
		if m.Inside(f.Path) && f.Meta.Check(f.Path) == nil {
			m.Maps.Map.AddFile(m.ID, me, f.Path, f.Meta)
		}
	}
	known, _ := m.Maps.Expected(m.ID, me)
	m.Maps.SetExpected(m.ID, me, max(known, s.files), m.World.Size())
}
