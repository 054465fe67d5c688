package prefix

import "errors"

const tagTurn = 1101

// InTurn runs f on every rank, on at most width at the same time, so that many
// ranks do not stand in each other's way at the file system. Ranks go in order,
// each when the one width before it has done; whatever f returns, the next gets
// its turn. A width of 0 has all of them run at once. It is collective; the result
// is the rank's own.
func (p *Prefix) InTurn(width int, f func() error) error {
	rank := p.Comm.Rank()
	if width <= 0 {
		width = p.Comm.Size()
	}
	var token [0]byte
	if rank >= width {
		if _, err := p.Comm.Recv(token[:], rank-width, tagTurn); err != nil {
			return err
		}
	}
	err := f()
	if rank < p.Comm.Size()-width {
		err = errors.Join(err, p.Comm.Send(token[:], rank+width, tagTurn))
	}
	return err
}
