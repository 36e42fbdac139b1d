package management

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// Options are what an API is made with.
type Options struct {
	Broker *broker.Broker
	// Logger takes refused logins; nil is slog.Default.
	Logger *slog.Logger
	// Version is Warren's own version.
	Version string
	// LoopbackUsers may log in over loopback only, as for AMQP. Empty: guest.
	LoopbackUsers []string
	// Listeners are what the broker listens on, for the overview and the health
	// checks.
	Listeners func() []Listener
}

// Listener is an address that the broker takes connections on.
type Listener struct {
	Protocol string // amqp, amqp/ssl, http
	IP       string
	Port     int
}

// API is the management API of one broker, an http.Handler for everything
// below /api/.
type API struct {
	broker   *broker.Broker
	options  Options
	log      *slog.Logger
	loopback auth.LoopbackRule
	router   router
}

// maxBody is the most bytes of a request's body: definitions may be large.
const maxBody = 64 << 20

// New makes the API.
func New(o Options) *API {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Listeners == nil {
		o.Listeners = func() []Listener { return nil }
	}
	a := &API{broker: o.Broker, options: o, log: o.Logger, loopback: auth.NewLoopbackRule(o.LoopbackUsers)}
	for _, r := range a.routes() {
		a.router.add(&resource{api: a, route: r})
	}
	return a
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s := a.router.find(r); s != nil {
		s.ServeHTTP(w, r)
		return
	}
	a.refuse(w, errNotFound)
}

// v4 says whether the API answers as 4.3.6 does.
func (a *API) v4() bool { return a.broker.Profile == compat.V4 }

// level is what a user must be to use a resource.
type level uint8

const (
	manager       level = iota // any user of the management API
	monitor                    // tag monitoring or administrator
	policymaker                // tag policymaker or administrator
	administrator              // tag administrator
	anybody                    // nobody in particular
)

// handler answers one request. What it returns becomes the body; nil: none.
type handler func(*request) (any, error)

// route is one path and what can be done there.
type route struct {
	path                   string // with names in braces
	get, put, post, delete handler
	read, write            level
	vhost                  bool  // {vhost} is one the user must have access to
	visible                bool  // or the tag monitoring
	connects               bool  // RabbitMQ does it as a client of its own
	missing                error // of a GET when there is no such virtual host; nil: not found
}

// request is one request under way.
type request struct {
	*http.Request
	api    *API
	user   auth.User
	vhost  *broker.VHost // of routes with vhost
	status int           // of success; 0: by method
	header http.Header   // of the answer
}

// failure is an answer that is not a success.
type failure struct {
	status int
	err    string
	reason any
}

// Error implements error.
func (f *failure) Error() string {
	text, _ := json.Marshal(f.reason)
	return f.err + ": " + string(text)
}

func badRequest(reason any) error {
	return &failure{http.StatusBadRequest, "bad_request", reason}
}

func notAuthorised(reason string) error {
	return &failure{http.StatusUnauthorized, "not_authorised", reason}
}

var errNotFound = &failure{http.StatusNotFound, "Object Not Found", "Not Found"}

// resource serves one route.
type resource struct {
	api      *API
	route    route
	segments []string // of the path
}

func (s *resource) handler(method string) handler {
	switch method {
	case http.MethodGet, http.MethodHead:
		return s.route.get
	case http.MethodPut:
		return s.route.put
	case http.MethodPost:
		return s.route.post
	case http.MethodDelete:
		return s.route.delete
	}
	return nil
}

// allowed lists the methods of the resource as RabbitMQ does.
func (s *resource) allowed() string {
	var all []string
	if s.route.get != nil {
		all = append(all, "HEAD", "GET")
	}
	for _, m := range []struct {
		name string
		h    handler
	}{{"PUT", s.route.put}, {"POST", s.route.post}, {"DELETE", s.route.delete}} {
		if m.h != nil {
			all = append(all, m.name)
		}
	}
	return strings.Join(append(all, "OPTIONS"), ", ")
}

// ServeHTTP implements http.Handler.
func (s *resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := s.api
	if a.v4() || r.Method == http.MethodOptions {
		w.Header().Set("Allow", s.allowed())
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Vary", "accept, accept-encoding, origin")
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusOK)
		return
	}
	h := s.handler(r.Method)
	if h == nil {
		w.Header().Set("Allow", s.allowed())
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	q := &request{Request: r, api: a, header: w.Header()}
	body, err := s.answer(q, h)
	if err != nil {
		a.refuse(w, err)
		return
	}
	q.write(w, body)
}

func (s *resource) answer(q *request, h handler) (any, error) {
	need := s.route.read
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		need = s.route.write
	}
	if need != anybody {
		if err := q.login(); err != nil {
			return nil, err
		}
		if err := q.authorise(need); err != nil {
			return nil, err
		}
	}
	if s.route.vhost {
		if err := q.enterVHost(&s.route, need); err != nil {
			return nil, err
		}
	}
	return h(q)
}

// errNoLogin asks for credentials.
var errNoLogin = &failure{status: http.StatusUnauthorized}

// login finds out who asks.
func (q *request) login() error {
	name, password, ok := q.BasicAuth()
	if !ok {
		if q.Header.Get("Authorization") != "" && q.api.v4() {
			return &failure{status: http.StatusBadRequest}
		}
		return errNoLogin
	}
	peer, err := netip.ParseAddrPort(q.RemoteAddr)
	near := err == nil && auth.IsLoopback(peer.Addr())
	if err := q.api.broker.Users.Authenticate(name, password); err != nil || !q.api.loopback.Allows(name, near) {
		q.api.log.Warn("management login refused", "user", name, "peer", q.RemoteAddr)
		if q.api.v4() {
			return &failure{http.StatusUnauthorized, "not_authorized", "Not_Authorized"}
		}
		q.header.Set("WWW-Authenticate", realm)
		return &failure{http.StatusUnauthorized, "not_authorized", "Login failed"}
	}
	q.user, _ = q.api.broker.Users.User(name)
	return nil
}

const realm = `Basic realm="RabbitMQ Management"`

// is says whether the user has one of the tags; an administrator has all.
func (q *request) is(tags ...string) bool {
	return slices.ContainsFunc(q.user.Tags, func(t string) bool { return t == "administrator" || slices.Contains(tags, t) })
}

func (q *request) authorise(need level) error {
	switch {
	case !q.is("management", "monitoring", "policymaker"):
		return notAuthorised("Not management user")
	case need == administrator && !q.is():
		return notAuthorised("Not administrator user")
	case need == monitor && !q.is("monitoring"):
		return notAuthorised("Not monitor user")
	case need == policymaker && !q.is("policymaker"):
		return notAuthorised("User not authorised to access object")
	}
	return nil
}

// enterVHost finds the virtual host of the path and checks that the user may
// see it. Administrators see all of them.
func (q *request) enterVHost(r *route, need level) error {
	v, ok := q.api.broker.VHost(q.PathValue("vhost"))
	switch {
	case !ok && r.connects && q.Method == http.MethodPost && !q.api.v4():
		return notAuthorised("Access refused.")
	case !ok && (q.Method == http.MethodPut || q.Method == http.MethodPost):
		return noVHost
	case !ok && r.missing != nil:
		return r.missing
	case !ok:
		return errNotFound
	case r.connects && q.is() && !q.api.broker.Auth.VHostAccess(q.user.Name, v.Name):
		return notAuthorised("Access refused.")
	case q.usable(v) || r.visible && q.is("monitoring"):
		q.vhost = v
		return nil
	case q.api.v4():
		return &failure{http.StatusNotFound, "not_found", "Not Found"}
	case need == policymaker:
		return notAuthorised("User not authorised to access object")
	}
	return notAuthorised("User not authorised to access virtual host")
}

// usable says whether the user may do something in a virtual host.
func (q *request) usable(v *broker.VHost) bool {
	return q.is() || q.api.broker.Auth.VHostAccess(q.user.Name, v.Name)
}

// usableVHosts are those in which the user may do something, or the one of the
// path.
func (q *request) usableVHosts() []*broker.VHost {
	if q.vhost != nil {
		return []*broker.VHost{q.vhost}
	}
	return slices.DeleteFunc(q.api.broker.VHosts(), func(v *broker.VHost) bool { return !q.usable(v) })
}

// vhosts are those whose objects the user may list.
func (q *request) vhosts() []*broker.VHost {
	if q.vhost != nil {
		return []*broker.VHost{q.vhost}
	}
	all := q.api.broker.VHosts()
	if q.is("monitoring") {
		return all
	}
	return slices.DeleteFunc(all, func(v *broker.VHost) bool { return !q.api.broker.Auth.VHostAccess(q.user.Name, v.Name) })
}

// client is the user as the broker's methods know it.
func (q *request) client() *broker.Client {
	return &broker.Client{User: q.user.Name, Owner: q, Connection: q.RemoteAddr + " -> management"}
}

// read reads the body, a JSON object, into v. An empty one is {}.
func (q *request) read(v any) error {
	body, err := io.ReadAll(q.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &failure{http.StatusRequestEntityTooLarge, "payload_too_large", "the body is larger than 64 MiB"}
	case err != nil:
		return badRequest("not_json")
	case len(body) == 0:
		return nil
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	if err := d.Decode(v); err != nil || d.More() {
		return badRequest("not_json")
	}
	return nil
}

// object reads the body as a JSON object.
func (q *request) object() (map[string]any, error) {
	m := map[string]any{}
	if err := q.read(&m); err != nil {
		return nil, err
	}
	if m == nil {
		return nil, badRequest("not_json")
	}
	return m, nil
}

// write writes a success.
func (q *request) write(w http.ResponseWriter, body any) {
	status := q.status
	if status == 0 {
		status = http.StatusOK
		if body == nil {
			status = http.StatusNoContent
		}
	}
	if body == nil {
		w.WriteHeader(status)
		return
	}
	if raw, ok := body.(json.RawMessage); ok {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(raw) // a peer that has gone
		return
	}
	text, err := json.Marshal(body)
	if err != nil {
		q.api.log.Error("management answer cannot be encoded", "path", q.URL.Path, "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // a peer that has gone
}

// refuse writes an error.
func (a *API) refuse(w http.ResponseWriter, err error) {
	var f *failure
	var refused *frames.Error
	var invalid *broker.ValidationError
	switch {
	case errors.As(err, &f):
	case errors.As(err, &refused):
		f = a.brokerRefusal(refused)
	case errors.As(err, &invalid):
		f = &failure{http.StatusBadRequest, "bad_request", invalid.Text}
	case errors.Is(err, broker.ErrNoVHost): // deleted meanwhile
		f = noVHost
	default:
		a.log.Error("management request failed", "error", err)
		f = &failure{http.StatusInternalServerError, "internal_server_error", err.Error()}
	}
	if f == errNoLogin {
		w.Header().Set("WWW-Authenticate", realm)
	}
	if f.err == "" {
		w.WriteHeader(f.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(map[string]any{"error": f.err, "reason": f.reason}) // a peer that has gone
}

// brokerRefusal is a refusal of the broker: its text is the reason, but of one
// for lack of permission nothing is told.
func (a *API) brokerRefusal(e *frames.Error) *failure {
	switch e.Code {
	case frames.AccessRefused:
		return &failure{http.StatusUnauthorized, "not_authorised", "Access refused."}
	case frames.NotFound:
		return &failure{http.StatusNotFound, "not_found", e.Text}
	}
	return &failure{http.StatusBadRequest, "bad_request", e.Text}
}

// await runs a change of the broker and waits until it is durable.
func (q *request) await(change func(done func(error)) (wait bool, err error)) error {
	stored := make(chan error, 1)
	wait, err := change(func(err error) { stored <- err })
	if err != nil || !wait {
		return err
	}
	return <-stored
}

// created sets the status of a PUT.
func (q *request) created(existed bool) (any, error) {
	q.status = http.StatusCreated
	if existed {
		q.status = http.StatusNoContent
	}
	return nil, nil
}
