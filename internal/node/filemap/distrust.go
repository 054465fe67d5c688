package filemap

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/meta"
)

// Distrust enters files as not complete that have no checksum yet and were last changed before the
// node has started: nothing of a file that was not synced is sure to be on its medium after a power failure, and nothing
// would show that. It calls tell for each of them.
func (m *Map) Distrust(started time.Time, tell func(id, rank int, path string)) {
	for _, id := range m.Datasets() {
		for _, rank := range m.Ranks(id) {
			for _, path := range m.Files(id, rank) {
				md := m.Meta(id, rank, path)
				if _, known := md.CRC(); known || md.Type() != meta.Full || !md.Complete() {
					continue
				}
				var st unix.Stat_t
				if err := unix.Stat(path, &st); err == nil && time.Unix(st.Ctim.Unix()).Before(started) {
					md.SetComplete(false)
					tell(id, rank, path)
				}
			}
		}
	}
}

// Booted returns when the node has started, by its present clock.
func Booted() time.Time {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(up.Nano()))
}
