package session

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goscr/goscr/mpi"
)

// readInput returns a digest of the files of SCR_JOB_INPUT, "" if there are none. Their names
// do not count, since the same input may be in another place. Rank 0 reads the files. It is
// collective; all ranks get the same.
func (s *Session) readInput() (digest string, err error) {
	names := strings.Fields(s.config.JobInput) // the same on all ranks
	if len(names) == 0 {
		return "", nil
	}
	text, err := mpi.BytesFromRoot(s.world, func() ([]byte, error) {
		all := sha256.New()
		for _, name := range names {
			one, err := digestOf(name)
			if err != nil {
				return nil, fmt.Errorf("SCR_JOB_INPUT: %w", err)
			}
			all.Write(one)
		}
		return []byte(hex.EncodeToString(all.Sum(nil)[:16])), nil
	})
	return string(text), err
}

func digestOf(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	one := sha256.New()
	_, err = io.Copy(one, f)
	return one.Sum(nil), err
}
