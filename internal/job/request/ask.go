package request

import (
	"crypto/rand"
	"path/filepath"
	"time"

	"github.com/goscr/goscr/hash"
)

// keep is how many requests that are over the file keeps, for commands that still read
// them.
const keep = 16

// NewAsker returns a name for a command, by which it takes a request back.
func NewAsker() string { return rand.Text() }

// Ask enters a request of asker for a checkpoint of job ("" for any), and returns its id.
// If there is a request for the same job whose checkpoint has not begun, Ask joins that:
// several requests at a time are one checkpoint, with what any of them wants.
func Ask(prefix, job, asker string, wish Wish) (id int, err error) {
	if err := hash.MakeDirs(filepath.Dir(Path(prefix))); err != nil {
		return 0, err
	}
	err = hash.Update(Path(prefix), func(h *hash.Hash) error {
		list := requests(h)
		for _, r := range list {
			if r.State.Open() && r.Job == job {
				id = r.ID
			}
		}
		if id == 0 {
			last, _ := h.Int(keyLast)
			id = max(int(last), highest(list)) + 1
			h.SetInt(keyLast, int64(id))
			if e := enter(h, id, Requested); job != "" {
				e.SetValue(keyJob, job)
			}
		}
		by := h.GetKVInt(keyCheckpoint, id).At(keyBy, asker)
		for key, set := range map[string]bool{keyTerm: wish.Term, keyStop: wish.Stop, keyAttach: wish.Attach} {
			if set {
				by.SetValue(key, "1")
			}
		}
		forget(h, list)
		return nil
	})
	return id, err
}

func highest(list []Request) int {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].ID
}

// forget removes the oldest requests that are over, except for a few.
func forget(h *hash.Hash, list []Request) {
	var over []int
	for _, r := range list {
		if r.State.Over() {
			over = append(over, r.ID)
		}
	}
	for _, id := range over[:max(len(over)-keep, 0)] {
		h.UnsetKVInt(keyCheckpoint, id)
	}
}

// Read returns a request. ok is false if there is none of that id: a run that has begun
// since has forgotten it.
func Read(prefix string, id int) (r Request, ok bool, err error) {
	h, err := hash.ReadOrNew(Path(prefix))
	e := h.GetKVInt(keyCheckpoint, id)
	if err != nil || e == nil {
		return Request{}, false, err
	}
	return decode(id, e), true, nil
}

// TakeBack removes asker from a request whose checkpoint has not begun, and the request if
// nobody else waits for it. It returns false if it is too late.
func TakeBack(prefix string, id int, asker string) (done bool, err error) {
	err = hash.Update(Path(prefix), func(h *hash.Hash) error {
		e := h.GetKVInt(keyCheckpoint, id)
		if e == nil {
			done = true
			return nil
		}
		if !decode(id, e).State.Open() {
			return nil
		}
		done = true
		e.UnsetKV(keyBy, asker)
		if e.Get(keyBy).Size() == 0 {
			h.UnsetKVInt(keyCheckpoint, id)
		}
		return nil
	})
	return done, err
}

// Refuse records why all requests for a job have failed that are not over: for a process that keeps
// the job from answering. It writes nothing if there are none.
func Refuse(prefix, job, why string) error {
	refused := func(h *hash.Hash) (list []Request) {
		for _, r := range requests(h) {
			if !r.State.Over() && (r.Job == "" || r.Job == job) {
				list = append(list, r)
			}
		}
		return list
	}
	h, err := hash.ReadOrNew(Path(prefix))
	if err != nil || len(refused(h)) == 0 {
		return err
	}
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		for _, r := range refused(h) {
			enter(h, r.ID, Failed).SetValue(keyReason, why)
		}
		return nil
	})
}

// AskToContinue enters that a stopped job is to be continued.
func AskToContinue(prefix string) error {
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		h.SetInt(keyContinue, time.Now().UnixMicro())
		return nil
	})
}

// ToContinue returns when somebody last asked to continue the job; the zero time if nobody
// has.
func ToContinue(prefix string) (time.Time, error) {
	h, err := hash.ReadOrNew(Path(prefix))
	if err != nil {
		return time.Time{}, err
	}
	if at, ok := h.Int(keyContinue); ok {
		return time.UnixMicro(at), nil
	}
	return time.Time{}, nil
}
