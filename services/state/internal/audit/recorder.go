package audit

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
)

type recorderKey struct{}

// Attach lets what serves a request Record in this log: the API through Interceptor, the console by itself.
func (l *Log) Attach(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), recorderKey{}, l)))
	})
}

// Record writes an action into the log that ctx belongs to; without one it does nothing.
func Record(ctx context.Context, request any, failure error) {
	if l, ok := ctx.Value(recorderKey{}).(*Log); ok {
		l.Record(ctx, request, failure)
	}
}

// Interceptor records what callers of the API do.
func Interceptor() connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			response, err := next(ctx, request)
			Record(ctx, request.Any(), err)
			return response, err
		}
	})
}
