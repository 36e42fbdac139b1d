package management

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"encoding/json"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// exportAll writes all definitions.
func exportAll(q *request) (any, error) {
	b := q.api.broker
	version := compat.Version.In(b.Profile)
	o := object{
		"rabbit_version": version, "rabbitmq_version": version, "product_name": "RabbitMQ", "product_version": version,
		"global_parameters": q.globalObjects(),
	}
	if q.api.v4() {
		o["rabbitmq_definition_format"], o["original_cluster_name"] = "cluster", q.api.clusterNameOf()
		o["explanation"] = "Definitions of cluster '" + q.api.clusterNameOf() + "'"
	}
	var users, vhosts, permissions, topics []object
	for _, u := range b.Users.Users() {
		users = append(users, q.userObject(u))
	}
	for _, v := range b.VHosts() {
		vhosts = append(vhosts, q.vhostDefinition(v))
	}
	for _, p := range b.Users.Permissions() {
		permissions = append(permissions, permissionObject(p))
	}
	for _, p := range b.Users.TopicPermissions() {
		topics = append(topics, topicObject(p))
	}
	o["users"], o["vhosts"], o["permissions"], o["topic_permissions"] = users, vhosts, orEmpty(permissions), orEmpty(topics)
	d := vhostDefinitions{api: q.api}
	for _, v := range b.VHosts() {
		d.add(v, true)
	}
	d.into(o)
	q.header.Set("Content-Disposition", "attachment; filename=definitions.json")
	return o, nil
}

func orEmpty(all []object) []object {
	if all == nil {
		return []object{}
	}
	return all
}

// vhostDefinition is a virtual host in definitions. That of 3.10.8 is its name
// alone, though it reads all of this.
func (q *request) vhostDefinition(v *broker.VHost) object {
	s := v.Settings()
	o := object{"name": v.Name, "metadata": q.metadata(s), "limits": vhostLimitsOf(q.api.broker, v.Name)}
	if !q.api.v4() {
		o["description"], o["tags"] = s.Description, textsOf(s.Tags)
	}
	return o
}

// vhostDefinitions are the definitions of virtual hosts.
type vhostDefinitions struct {
	api                                               *API
	queues, exchanges, bindings, policies, parameters []object
}

// add adds a virtual host's; named: each says which one it is of.
func (d *vhostDefinitions) add(v *broker.VHost, named bool) {
	put := func(o object) object {
		if named {
			o["vhost"] = v.Name
		}
		return o
	}
	for _, u := range v.Queues() {
		if u.Owner != nil {
			continue
		}
		o := object{"name": u.Name, "durable": u.Durable, "auto_delete": u.AutoDelete, "arguments": tableJSON(u.Arguments)}
		if d.api.v4() {
			o["type"] = u.Type
		}
		d.queues = append(d.queues, put(o))
	}
	d.addPolicies(v, named || !d.api.v4())
	for _, x := range v.Exchanges() {
		if !system(x) {
			d.exchanges = append(d.exchanges, put(object{
				"name": x.Name, "type": x.Type, "durable": x.Durable, "auto_delete": x.AutoDelete, "internal": x.Internal, "arguments": tableJSON(x.Arguments),
			}))
		}
	}
	for _, b := range bindingsOf(v) {
		if b.source == "" {
			continue
		}
		if u, ok := v.Queue(b.destination); b.toQueue && (!ok || u.Owner != nil) {
			continue
		}
		o := b.object()
		delete(o, "vhost")
		delete(o, "properties_key")
		d.bindings = append(d.bindings, put(o))
	}
	sortNames(d.queues)
	sortNames(d.exchanges)
}

// addPolicies adds a virtual host's policies and parameters, which under 3.10.8
// always say where they belong.
func (d *vhostDefinitions) addPolicies(v *broker.VHost, named bool) {
	for _, p := range d.api.broker.Policies(v.Name, broker.UserPolicy) {
		d.policies = append(d.policies, policyObject(v.Name, p))
	}
	for _, p := range d.api.broker.Parameters(v.Name) {
		d.parameters = append(d.parameters, object{"vhost": v.Name, "component": p.Component, "name": p.Name, "value": p.Value})
	}
	if named {
		return
	}
	for _, o := range slices.Concat(d.policies, d.parameters) {
		delete(o, "vhost")
	}
}

func (d *vhostDefinitions) into(o object) {
	o["policies"], o["parameters"] = orEmpty(d.policies), orEmpty(d.parameters)
	o["queues"], o["exchanges"], o["bindings"] = orEmpty(d.queues), orEmpty(d.exchanges), orEmpty(d.bindings)
}

// exportVHost writes the definitions of one virtual host.
func exportVHost(q *request) (any, error) {
	version := compat.Version.In(q.api.broker.Profile)
	o := object{"rabbit_version": version}
	if q.api.v4() {
		o["rabbitmq_version"], o["product_name"], o["product_version"] = version, "RabbitMQ", version
		o["rabbitmq_definition_format"], o["original_vhost_name"] = "single_virtual_host", q.vhost.Name
		s := q.vhost.Settings()
		o["description"], o["limits"], o["metadata"] = s.Description, vhostLimitsOf(q.api.broker, q.vhost.Name), q.metadata(s)
		o["explanation"] = "Definitions of virtual host '" + q.vhost.Name + "'"
	}
	d := vhostDefinitions{api: q.api}
	d.add(q.vhost, false)
	d.into(o)
	return o, nil
}

// readDefinitions reads the body, which may be a form with a file.
func (q *request) readDefinitions() (object, error) {
	o := object{}
	if strings.HasPrefix(q.Header.Get("Content-Type"), "multipart/form-data") {
		f, _, err := q.FormFile("file")
		if err != nil {
			return nil, badRequest("failed_to_parse_json")
		}
		defer f.Close()
		d := json.NewDecoder(f)
		d.UseNumber()
		if err := d.Decode(&o); err != nil {
			return nil, badRequest("failed_to_parse_json")
		}
		return o, nil
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, &failure{http.StatusRequestEntityTooLarge, "payload_too_large", "the body is larger than 64 MiB"}
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	if err := d.Decode(&o); err != nil || o == nil {
		return nil, badRequest("failed_to_parse_json")
	}
	return o, nil
}

func importAll(q *request) (any, error) {
	o, err := q.readDefinitions()
	if err != nil {
		return nil, err
	}
	return nil, q.api.take(o, "")
}

func importVHost(q *request) (any, error) {
	o, err := q.readDefinitions()
	if err != nil {
		return nil, err
	}
	return nil, q.api.take(o, q.vhost.Name)
}

// step is one definition that was read and can be done.
type step struct {
	what string // for errors, for example "queues[3]"
	do   func() error
}

// plan is an import that was read as a whole.
type plan struct {
	api    *API
	vhost  string          // of objects that name none
	vhosts map[string]bool // that there will be
	steps  []step
}

// take reads all definitions and, if all can be read, does them in order. what
// the broker itself refuses ends it.
func (a *API) take(o object, vhost string) error {
	p := &plan{api: a, vhost: vhost, vhosts: map[string]bool{}}
	for _, v := range a.broker.VHosts() {
		p.vhosts[v.Name] = true
	}
	for _, part := range []struct {
		key  string
		read func(o object) (func() error, error)
	}{
		{"users", p.readUser}, {"vhosts", p.readVHost}, {"permissions", p.readPermission}, {"exchanges", p.readExchange},
		{"topic_permissions", p.readTopicPermission}, {"global_parameters", p.readGlobal}, {"policies", p.readPolicy},
		{"parameters", p.readParameter}, {"queues", p.readQueue}, {"bindings", p.readBinding},
	} {
		list, ok := o[part.key].([]any)
		if !ok && o[part.key] != nil {
			return badRequest(fmt.Sprintf("%s is not a list", part.key))
		}
		for i, e := range list {
			what := fmt.Sprintf("%s[%d]", part.key, i)
			item, ok := e.(object)
			if !ok {
				return badRequest(what + " is not an object")
			}
			do, err := part.read(item)
			if err != nil {
				return inPart(what, err)
			}
			p.steps = append(p.steps, step{what, do})
		}
	}
	for _, s := range p.steps {
		if err := s.do(); err != nil {
			return inPart(s.what, err)
		}
	}
	return nil
}

// inPart says which definition an error is about, where RabbitMQ's own texts
// leave it open.
func inPart(what string, err error) error {
	switch e := err.(type) {
	case *failure:
		if reason, ok := e.reason.(string); ok && !strings.HasPrefix(reason, "Please create") && !strings.HasPrefix(reason, "Validation failed") {
			return &failure{e.status, e.err, what + ": " + reason}
		}
		return e
	case *frames.Error:
		return badRequest(what + ": " + e.Text)
	case *broker.ValidationError:
		return badRequest(what + ": " + e.Text)
	}
	return fmt.Errorf("import %s: %w", what, err)
}

// wait runs a change and waits for the store.
func wait(change func(done func(error)) (bool, error)) error { return (&request{}).await(change) }

func (p *plan) readUser(o object) (func() error, error) {
	name, err := text(o, "name")
	if err != nil {
		return nil, err
	}
	u, err := readUser(name, o)
	if err != nil {
		return nil, err
	}
	limits, err := readUserLimits(o)
	if err != nil {
		return nil, err
	}
	return func() error {
		if old, ok := p.api.broker.Users.User(name); ok {
			u.Limits = maps.Clone(old.Limits)
		}
		if len(limits) > 0 && u.Limits == nil {
			u.Limits = map[string]int{}
		}
		maps.Copy(u.Limits, limits) // those not named stay, as in RabbitMQ
		return wait(func(done func(error)) (bool, error) { return true, p.api.broker.Users.PutUser(u, done) })
	}, nil
}

func (p *plan) readVHost(o object) (func() error, error) {
	name, err := text(o, "name")
	if err != nil {
		return nil, err
	}
	settings, err := readVHostSettings(p.settingsOf(o))
	if err != nil {
		return nil, err
	}
	if err := settings.Check(p.api.broker.Profile); err != nil {
		return nil, err
	}
	p.vhosts[name] = true
	return func() error {
		return wait(func(done func(error)) (bool, error) {
			if v, ok := p.api.broker.VHost(name); ok && settings.DefaultQueueType == "" && !p.api.v4() {
				settings.DefaultQueueType = v.Settings().DefaultQueueType // as 3.10.8 does
			}
			_, wait, err := p.api.broker.PutVHost(name, settings, done)
			return wait, err
		})
	}, nil
}

// vhostOf is the name of the virtual host an object is in, which must be there
// or be made by the import.
func (p *plan) vhostOf(o object) (string, error) {
	name := p.vhost
	if v, ok := o["vhost"].(string); ok && p.vhost == "" {
		name = v
	}
	if p.vhosts[name] {
		return name, nil
	}
	if p.api.v4() {
		return "", badRequest(fmt.Sprintf("Please create virtual host \"%s\" prior to importing definitions.", name))
	}
	return "", badRequest([]any{"no_such_vhost", name})
}

// named gives an object's virtual host and name.
func (p *plan) named(o object) (vhost, name string, err error) {
	if vhost, err = p.vhostOf(o); err == nil {
		name, err = text(o, "name")
	}
	return vhost, name, err
}

func (p *plan) readPermission(o object) (func() error, error) {
	vhost, err := p.vhostOf(o)
	if err != nil {
		return nil, err
	}
	d := auth.Permission{VHost: vhost}
	if err := texts(o, []field[string]{{"user", &d.User}, {"configure", &d.Configure}, {"write", &d.Write}, {"read", &d.Read}}); err != nil {
		return nil, err
	}
	return func() error {
		return wait(func(done func(error)) (bool, error) { return true, p.api.broker.Users.PutPermission(d, done) })
	}, nil
}

func (p *plan) readTopicPermission(o object) (func() error, error) {
	vhost, err := p.vhostOf(o)
	if err != nil {
		return nil, err
	}
	d := auth.TopicPermission{VHost: vhost}
	if err := texts(o, []field[string]{{"user", &d.User}, {"exchange", &d.Exchange}, {"write", &d.Write}, {"read", &d.Read}}); err != nil {
		return nil, err
	}
	return func() error {
		return wait(func(done func(error)) (bool, error) { return true, p.api.broker.Users.PutTopicPermission(d, done) })
	}, nil
}

// in runs a change in a virtual host, as the broker itself: who may import
// may declare everything.
func (p *plan) in(vhost string, change func(v *broker.VHost, done func(error)) (bool, error)) func() error {
	return func() error {
		v, ok := p.api.broker.VHost(vhost)
		if !ok {
			return badRequest([]any{"no_such_vhost", vhost})
		}
		return wait(func(done func(error)) (bool, error) { return change(v, done) })
	}
}

// importer is the client that imports as: no user, who may do everything.
func importer() *broker.Client {
	return &broker.Client{Internal: true, Owner: new(int), Connection: "definitions"}
}

func (p *plan) readExchange(o object) (func() error, error) {
	vhost, name, err := p.named(o)
	if err != nil {
		return nil, err
	}
	m, err := readExchange(name, o)
	if err != nil {
		return nil, err
	}
	return p.in(vhost, func(v *broker.VHost, done func(error)) (bool, error) {
		if _, there := v.Exchange(m.Exchange); there {
			return false, nil // left as it is, whatever it is
		}
		return v.DeclareExchange(importer(), m, done)
	}), nil
}

func (p *plan) readQueue(o object) (func() error, error) {
	vhost, name, err := p.named(o)
	if err != nil {
		return nil, err
	}
	m, err := readQueue(name, o)
	if err != nil {
		return nil, err
	}
	return p.in(vhost, func(v *broker.VHost, done func(error)) (bool, error) {
		if _, there := v.Queue(m.Queue); there {
			return false, nil // left as it is, whatever it is
		}
		_, wait, err := v.DeclareQueue(importer(), m, done)
		return wait, err
	}), nil
}

func (p *plan) readBinding(o object) (func() error, error) {
	vhost, err := p.vhostOf(o)
	if err != nil {
		return nil, err
	}
	r := broker.BindRequest{}
	kind := ""
	if err := texts(o, []field[string]{{"source", &r.Source}, {"destination", &r.Destination}, {"routing_key", &r.Key}, {"destination_type", &kind}}); err != nil {
		return nil, err
	}
	switch kind {
	case "queue":
		r.ToQueue = true
	case "exchange":
	default:
		return nil, badRequest(fmt.Sprintf("destination_type %q is neither queue nor exchange", kind))
	}
	if r.Arguments, err = jsonTable(o["arguments"]); err != nil {
		return nil, err
	}
	return p.in(vhost, func(v *broker.VHost, done func(error)) (bool, error) { return v.Bind(importer(), r, done) }), nil
}

// grantAll gives the user that made a virtual host all permissions in it.
func (q *request) grantAll(vhost string) error {
	p := auth.Permission{User: q.user.Name, VHost: vhost, Configure: ".*", Write: ".*", Read: ".*"}
	return q.await(func(done func(error)) (bool, error) { return true, q.api.broker.Users.PutPermission(p, done) })
}
