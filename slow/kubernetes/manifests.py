"""The manifests that are shipped, and where the API server takes each kind of object."""

import re

from slow.kubernetes.cluster import ROOT, Cluster

MANIFESTS = ROOT / "deploy" / "agent" / "kubernetes"
PATHS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ConfigMap": "/api/v1/namespaces/forewarn/configmaps",
    "DaemonSet": "/apis/apps/v1/namespaces/forewarn/daemonsets",
    "Namespace": "/api/v1/namespaces",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
    "ServiceAccount": "/api/v1/namespaces/forewarn/serviceaccounts",
}


def apply(cluster: Cluster, manifest: str) -> None:
    for part in re.split(r"^---$", manifest, flags=re.MULTILINE):
        kind = re.search(r"^kind: (\w+)$", part, re.MULTILINE)
        assert kind is not None
        cluster.ask("POST", PATHS[kind[1]], part, "application/yaml")
