package management

import "github.com/warrenmq/warren/amqp/broker"

// routes lists every path of the API.
func (a *API) routes() []route {
	policies, operator := policyRoutes{broker.UserPolicy}, policyRoutes{broker.OperatorPolicy}
	return []route{
		{path: "/api/overview", get: overview},
		{path: "/api/cluster-name", get: clusterName, put: putClusterName, write: administrator},
		{path: "/api/nodes", get: nodes, read: monitor},
		{path: "/api/nodes/{node}", get: oneNode, read: monitor},
		{path: "/api/extensions", get: extensions},
		{path: "/api/whoami", get: whoami},
		{path: "/api/version", get: version, read: anybody},
		{path: "/api/aliveness-test/{vhost}", get: aliveness, vhost: true, connects: true},
		{path: "/api/healthchecks/node", get: healthy},
		{path: "/api/healthchecks/node/{node}", get: healthy},
		{path: "/api/health/checks/{check}", get: healthCheck},
		{path: "/api/health/checks/{check}/{argument}", get: healthCheck},
		{path: "/api/health/checks/{check}/{argument}/{unit}", get: healthCheck},
		{path: "/api/auth/hash_password/{password}", get: hashPassword},

		{path: "/api/vhosts", get: listVHosts},
		{path: "/api/vhosts/{name}", get: getVHost, put: putVHost, delete: deleteVHost, read: administrator, write: administrator},
		{path: "/api/vhosts/{name}/permissions", get: vhostPermissions, read: administrator},
		{path: "/api/vhosts/{name}/topic-permissions", get: vhostTopicPermissions, read: administrator},
		{path: "/api/vhosts/{vhost}/connections", get: listConnections, vhost: true},
		{path: "/api/vhosts/{vhost}/channels", get: listChannels, vhost: true},

		{path: "/api/users", get: listUsers, read: administrator},
		{path: "/api/users/without-permissions", get: listUsersWithout, read: administrator},
		{path: "/api/users/bulk-delete", post: deleteUsers, write: administrator},
		{path: "/api/users/{user}", get: getUser, put: putUser, delete: deleteUser, read: administrator, write: administrator},
		{path: "/api/users/{user}/permissions", get: userPermissions, read: administrator},
		{path: "/api/users/{user}/topic-permissions", get: userTopicPermissions, read: administrator},
		{path: "/api/permissions", get: listPermissions, read: administrator},
		{path: "/api/permissions/{name}/{user}", get: getPermission, put: putPermission, delete: deletePermission, read: administrator, write: administrator},
		{path: "/api/topic-permissions", get: listTopicPermissions, read: administrator},
		{path: "/api/topic-permissions/{name}/{user}", get: getTopicPermissions, put: putTopicPermission, delete: deleteTopicPermissions, read: administrator, write: administrator},
		{path: "/api/topic-permissions/{name}/{user}/{exchange}", get: getTopicPermissions, delete: deleteTopicPermission, read: administrator, write: administrator},

		{path: "/api/policies", get: policies.list},
		{path: "/api/policies/{vhost}", get: policies.list, vhost: true},
		{path: "/api/policies/{vhost}/{policy}", get: policies.get, put: policies.put, delete: policies.delete, vhost: true, read: policymaker, write: policymaker},
		{path: "/api/operator-policies", get: operator.list},
		{path: "/api/operator-policies/{vhost}", get: operator.list, vhost: true},
		{path: "/api/operator-policies/{vhost}/{policy}", get: operator.get, put: operator.put, delete: operator.delete, vhost: true, read: administrator, write: administrator},
		{path: "/api/vhost-limits", get: listVHostLimits},
		{path: "/api/vhost-limits/{vhost}", get: listVHostLimits, vhost: true, visible: true},
		{path: "/api/vhost-limits/{vhost}/{limit}", put: putVHostLimit, delete: deleteVHostLimit, vhost: true, write: administrator},
		{path: "/api/user-limits", get: listUserLimits},
		{path: "/api/user-limits/{user}", get: getUserLimits},
		{path: "/api/user-limits/{user}/{limit}", put: putUserLimit, delete: deleteUserLimit, write: administrator},
		{path: "/api/parameters", get: listParameters, read: policymaker},
		{path: "/api/parameters/{component}", get: listParameters, read: policymaker},
		{path: "/api/parameters/{component}/{vhost}", get: listParameters, vhost: true, read: policymaker},
		{path: "/api/parameters/{component}/{vhost}/{parameter}", get: getParameter, put: putParameter, delete: deleteParameter, vhost: true, read: policymaker, write: policymaker},
		{path: "/api/global-parameters", get: listGlobals, read: policymaker},
		{path: "/api/global-parameters/{parameter}", get: getGlobal, put: putGlobal, delete: deleteGlobal, read: policymaker, write: policymaker},

		{path: "/api/connections", get: listConnections},
		{path: "/api/connections/{name}", get: getConnection, delete: closeConnection},
		{path: "/api/connections/username/{user}", get: userConnections, delete: closeUserConnections},
		{path: "/api/connections/{name}/channels", get: connectionChannels},
		{path: "/api/channels", get: listChannels},
		{path: "/api/channels/{name}", get: getChannel},
		{path: "/api/consumers", get: listConsumers},
		{path: "/api/consumers/{vhost}", get: listConsumers, vhost: true, visible: true},

		{path: "/api/exchanges", get: listExchanges},
		{path: "/api/exchanges/{vhost}", get: listExchanges, vhost: true},
		{path: "/api/exchanges/{vhost}/{exchange}", get: getExchange, put: putExchange, delete: deleteExchange, vhost: true},
		{path: "/api/exchanges/{vhost}/{exchange}/bindings/source", get: bindingsFrom, vhost: true},
		{path: "/api/exchanges/{vhost}/{exchange}/bindings/destination", get: bindingsTo, vhost: true},
		{path: "/api/exchanges/{vhost}/{exchange}/publish", post: publish, vhost: true, connects: true},

		{path: "/api/queues", get: listQueues},
		{path: "/api/queues/{vhost}", get: listQueues, vhost: true},
		{path: "/api/queues/{vhost}/{queue}", get: getQueue, put: putQueue, delete: deleteQueue, vhost: true},
		{path: "/api/queues/{vhost}/{queue}/bindings", get: queueBindings, vhost: true},
		{path: "/api/queues/{vhost}/{queue}/contents", delete: purgeQueue, vhost: true},
		{path: "/api/queues/{vhost}/{queue}/get", post: getMessages, vhost: true, connects: true},

		{path: "/api/bindings", get: listBindings},
		{path: "/api/bindings/{vhost}", get: listBindings, vhost: true},
		{path: "/api/bindings/{vhost}/e/{source}/{kind}/{destination}", get: bindingsBetween, post: addBinding, vhost: true},
		{path: "/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}", get: getBinding, delete: deleteBinding, vhost: true},

		{path: "/api/definitions", get: exportAll, post: importAll, read: administrator, write: administrator},
		{path: "/api/all-configuration", get: exportAll, post: importAll, read: administrator, write: administrator},
		{path: "/api/definitions/{vhost}", get: exportVHost, post: importVHost, vhost: true, missing: badRequest("vhost_not_found"), read: administrator, write: administrator},

		{path: "/api/rebalance/queues", post: nothing, write: administrator},
		{path: "/api/reset", delete: nothing, write: administrator},
	}
}

// nothing is for what has nothing to do on one node.
func nothing(*request) (any, error) { return nil, nil }
