package main

import (
	"context"
	"math/rand"
	"time"
)

// backoff yields delays that double up to a longest one, each reduced by up to half, so that agents do
// not return all at once.
type backoff struct {
	delay   time.Duration
	longest time.Duration
}

func newBackoff(longest time.Duration) backoff {
	return backoff{delay: longest / 60, longest: longest}
}

func (b *backoff) next() time.Duration {
	delay := spread(b.delay, 0.5, 1.0)
	b.delay = min(b.delay*2, b.longest)
	return delay
}

func spread(duration time.Duration, low, high float64) time.Duration {
	return time.Duration(float64(duration) * (low + rand.Float64()*(high-low)))
}

// sleep returns false if the context ends first.
func sleep(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
