package prefix

// A user chooses the checkpoint of the next restart with scr_index. The run takes it even if the cache has a newer one,
// as if SCR_CURRENT named it:
//
//	CHOSEN
//	  DSET    id of the chosen dataset, which is the current one, too
//	  NEWEST  highest id of any dataset that was known when the user chose
//
// A choice ends when a run begins a dataset, or another dataset becomes current. It does not hold if there is a dataset
// with a higher id than NEWEST: a job has written that since, and its work counts.
const (
	keyChosen = "CHOSEN"
	keyNewest = "NEWEST"
)

// Choose makes the next run with a prefix directory restart from a dataset. x is the index of that directory.
func Choose(x *Index, prefix, name string) error {
	if err := x.SetCurrent(name); err != nil {
		return err
	}
	e, _ := x.Find(x.Current())
	newest := x.Highest()
	list, err := Locations(prefix)
	if err != nil {
		return err
	}
	for _, l := range list {
		if l.Is(InCache) || l.Is(Flushing) {
			newest = max(newest, l.ID)
		}
	}
	x.h.Unset(keyChosen)
	x.h.At(keyChosen).SetInt(keyDset, int64(e.ID))
	x.h.At(keyChosen).SetInt(keyNewest, int64(newest))
	return nil
}

// Choice returns the dataset that a user has chosen for the next restart. newest is the highest id of any dataset that is known
// now. made is whether a user has chosen one, holds whether the choice still counts.
func Choice(x *Index, newest int) (e Entry, made, holds bool) {
	id, made := x.h.Get(keyChosen).Int(keyDset)
	if !made {
		return Entry{}, false, false
	}
	known, _ := x.h.Get(keyChosen).Int(keyNewest)
	e = x.ByID(int(id))
	return e, true, e.Current && e.usable() && newest <= int(known)
}

// EndChoice ends the choice of a user: the run has taken it, or goes on without.
func EndChoice(prefix string) error {
	return UpdateIndex(prefix, func(x *Index) error { x.h.Unset(keyChosen); return nil })
}
