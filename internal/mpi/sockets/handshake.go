package sockets

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// A connection begins with a handshake, in which both sides prove that they know the secret
// of the job. Nothing else that comes over the connection counts before. C is the rank that
// has connected, A the one that accepts:
//
//	C to A   hello    8 bytes, rank of C  4, rank of A  4, nonce of C  32
//	A to C   nonce of A  32, HMAC of secret, "accept", hello, nonce of A   32
//	C to A   HMAC of secret, "connect", hello, nonce of A   32
//	A to C   verdict  1
//
// The words differ so that neither side can be made to compute the proof of the other.
const (
	greeting   = "goscrnt1"
	nonceSize  = 32
	proofSize  = sha256.Size
	helloSize  = len(greeting) + 8 + nonceSize
	answerSize = nonceSize + proofSize
	secretSize = 32
)

// The verdicts of the accepting side.
const (
	verdictTaken = 1 + iota // the connection is made
	verdictOther            // the other connection of these ranks counts
)

// random returns n random bytes.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return b
}

// newHello returns the hello of rank from to rank to.
func newHello(from, to int) []byte {
	b := append(make([]byte, 0, helloSize), greeting...)
	b = binary.LittleEndian.AppendUint32(b, uint32(from))
	b = binary.LittleEndian.AppendUint32(b, uint32(to))
	return append(b, random(nonceSize)...)
}

// parseHello returns the rank that has sent a hello to rank me of n.
func parseHello(hello []byte, me, n int) (from int, err error) {
	if string(hello[:len(greeting)]) != greeting {
		return 0, errors.New("is no rank of goscr")
	}
	from = int(binary.LittleEndian.Uint32(hello[len(greeting):]))
	to := int(binary.LittleEndian.Uint32(hello[len(greeting)+4:]))
	if to != me || from == me || from >= n {
		return 0, fmt.Errorf("rank %d of another communicator, which looks for rank %d", from, to)
	}
	return from, nil
}

// answer returns what the accepting side answers to a hello.
func answer(secret, hello []byte) []byte {
	nonce := random(nonceSize)
	return append(nonce, proof(secret, "accept", hello, nonce)...)
}

// checkAnswer returns what the connecting side sends after an answer that proves the secret.
func checkAnswer(secret, hello, answer []byte) ([]byte, error) {
	nonce := answer[:nonceSize]
	if !hmac.Equal(answer[nonceSize:], proof(secret, "accept", hello, nonce)) {
		return nil, errStranger
	}
	return proof(secret, "connect", hello, nonce), nil
}

// checkProof returns an error unless the connecting side has proved the secret.
func checkProof(secret, hello, nonce, got []byte) error {
	if !hmac.Equal(got, proof(secret, "connect", hello, nonce)) {
		return errStranger
	}
	return nil
}

var errStranger = errors.New("it does not know the secret of the job")

func proof(secret []byte, word string, hello, nonce []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(word))
	h.Write(hello)
	h.Write(nonce)
	return h.Sum(nil)
}
