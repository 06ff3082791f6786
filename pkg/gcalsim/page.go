package gcalsim

import "net/http"

func (s *Sim) servePage(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
