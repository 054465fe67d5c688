package sockets

import (
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/mpi"
)

// BenchmarkRing is what each rank of a ring sends to the next while it receives as much, with a
// few messages in transit: as encoding does. BenchmarkPlain is the same with write(2) and read(2)
// on connections of its own, to compare.
func BenchmarkRing(b *testing.B) {
	const members, window = 4, 8
	for _, size := range []int{64 << 10, 512 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			comms := ranks(b, members, long, nil)
			b.SetBytes(int64(members * window * size))
			errs := each(comms, func(c *Comm) error {
				me := c.Rank()
				send := mpi.Alloc(window * size)
				recv := mpi.Alloc(window * size)
				c.Barrier()
				for range b.N {
					var requests []mpi.Request
					for i := range window {
						r := c.Irecv(recv[i*size:(i+1)*size], (me+members-1)%members, i)
						s := c.Isend(send[i*size:(i+1)*size], (me+1)%members, i)
						requests = append(requests, r, s)
					}
					for _, r := range requests {
						r.Wait()
					}
				}
				mpi.Free(send)
				mpi.Free(recv)
				c.Free()
				return nil
			})
			for _, err := range errs {
				must(b, err)
			}
		})
	}
}

func BenchmarkPlain(b *testing.B) {
	const members, size = 4, 8 << 20
	b.SetBytes(members * size)
	var wg sync.WaitGroup
	for range members {
		comms := ranks(b, 1, long, nil)
		to := comms[0].net.here.toward(comms[0].net.here)[0]
		listener, port, err := listenOn(to.Addr())
		must(b, err)
		must(b, unix.SetNonblock(listener, false))
		a, err := newSocket(to.Addr())
		must(b, err)
		must(b, unix.SetNonblock(a, false))
		must(b, unix.Connect(a, &unix.SockaddrInet4{Port: int(port), Addr: to.Addr().As4()}))
		c, _, err := unix.Accept(listener)
		must(b, err)
		unix.Close(listener)
		wg.Add(2)
		go func() {
			defer wg.Done()
			defer unix.Close(a)
			buf := make([]byte, size)
			for range b.N {
				for at := 0; at < size; {
					n, err := unix.Write(a, buf[at:])
					if err != nil {
						b.Error(err)
						return
					}
					at += n
				}
			}
		}()
		go func() {
			defer wg.Done()
			defer unix.Close(c)
			buf := make([]byte, size)
			for left := size * b.N; left > 0; {
				n, err := unix.Read(c, buf[:min(size, left)])
				if n <= 0 || err != nil {
					b.Error(n, err)
					return
				}
				left -= n
			}
		}()
	}
	wg.Wait()
}
