package natstest_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/natstest"
)

func TestRestartKeepsAddressAndData(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	back := make(chan struct{}, 1)
	nc := srv.Connect(nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} }))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "s", []byte("kept"))
	require.NoError(t, err)

	srv.Restart()
	<-back

	st, err := js.Stream(t.Context(), "S")
	require.NoError(t, err)
	m, err := st.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "kept", string(m.Data))
}

func TestClusterOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t)
	nc := c.Connect()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "s", []byte("kept"))
	require.NoError(t, err)

	c.Leader(t.Context(), js, "S").Stop()

	require.Eventually(t, func() bool { // a request to a leader that is no more has no answer
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := js.Publish(ctx, "s", nil)
		return err == nil
	}, time.Minute, 10*time.Millisecond, "the others elect a leader")
}
