package protect

import (
	"time"

	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/sys/idle"
)

// room finds out whether the processors that the caller may use have time for a protection beside the program: whether they were spare, since
// the dataset before, for as long as the protection takes. Where they were not, a thread that protects takes the
// time from the program, and more of it than a call that protects and waits (docs/decisions/auto.md). The zero value never has room.
type room struct {
	meter interface { // an idle.Meter, but in tests
		Lap(ranks int) (spare time.Duration, err error)
	}
	ranks int           // of the node
	last  time.Duration // of the last protection that the program has waited for; 0: there was none
}

// overTCP is how much more processor time a thread takes, which sends by TCP what a call sends by the program's MPI.
const overTCP = 3

func (r *room) open(ranks int, log *report.Logger) {
	meter, err := idle.New()
	if err != nil {
		log.Warn("SCR_ENCODE_ASYNC=auto: it is unknown how busy the processors are (%v): the program waits while datasets are protected", err)
		return
	}
	r.meter, r.ranks = meter, ranks
}

// took records how long a dataset took to protect while the program waited.
func (r *room) took(c *cache.Cached) {
	if took, bytes := c.Encoded(); bytes > 0 {
		r.last = took
	}
}

// suffices reports whether the processors were spare since the last call for as long as a protection would take. It is not collective.
func (r *room) suffices() bool {
	if r.meter == nil {
		return false
	}
	spare, err := r.meter.Lap(r.ranks)
	return err == nil && r.last > 0 && spare >= overTCP*r.last
}
