"""Several nodes that share one journal: who leads, who follows, and what they say to each other.

    ClusterMembership ── heartbeats, lease ──▶ ClusterNode ──▶ leads: writer, deadlines, driver calls, notifications
                                                │
                                                └────────▶ follows: ReplicaFollower; commands go to ``node.forwarder``

``ClusterNode(assembly, journal, name, address)`` makes a node of an ``Assembly`` whose journal is shared; then
``assembly.start()`` and ``assembly.stop()`` run it. ``drain()`` passes leadership on before a stop. It is a
``Leadership`` (``is_leading``, ``leader``). ``node.begin`` sends commands of VMs to the writer or to the forwarder;
``node.submit`` raises ``NotLeading`` where this node does not lead. A node with a journal of its own uses none of
this.
"""
