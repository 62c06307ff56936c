"""Faults of what VMs are shown: the wire, the document cache, the service."""

from planted.fault import Fault

_SCOPE = "No VM outside the group sees or approves the event."
_RESPONSES = "Requests and responses are as docs/reference/azure.md says."

FAULTS = (
    Fault(
        name="Old api-versions show types that they do not know",
        promise=_RESPONSES,
        file="src/forewarn/wire/document.py",
        old="for event in events if event.type in version.types)",
        new="for event in events)",
        found_by=("tests/wire/test_document.py",),
    ),
    Fault(
        name="Events are shown in the reverse order of their announcement",
        promise=_RESPONSES,
        file="src/forewarn/wire/document.py",
        old="for event in events if event.type in version.types)",
        new="for event in reversed(events) if event.type in version.types)",
        found_by=("tests/wire/test_document.py", "tests/metadata/test_document_cache.py"),
    ),
    Fault(
        name="A Started event shows a NotBefore",
        promise=_RESPONSES,
        file="src/forewarn/wire/document.py",
        old='not_before="" if event.status is EventStatus.STARTED else show_time(event.not_before),',
        new="not_before=show_time(event.not_before),",
        found_by=("tests/wire/test_document.py",),
    ),
    Fault(
        name="An approval with an id in upper case names no event",
        promise=_RESPONSES,
        file="src/forewarn/wire/approval.py",
        old="tuple(dict.fromkeys(read_id(request.event_id) for request in starts)),",
        new="tuple(dict.fromkeys(request.event_id for request in starts)),",
        found_by=("tests/wire/test_approval.py",),
    ),
    Fault(
        name="A VM that has joined another group is shown the document of the old one",
        promise=_SCOPE,
        file="src/forewarn/metadata/document_cache.py",
        old="        vm_entry.vm = vm\n        vm_entry.documents = documents\n",
        new="        vm_entry.vm = vm\n",
        found_by=("tests/metadata/test_document_cache.py",),
    ),
    Fault(
        name="A VM that leaves its group while it waits is not answered",
        promise="A VM that waits for a change while it is moved to another group is answered at once.",
        file="src/forewarn/metadata/service.py",
        old="            if vm_entry is None or vm_entry.documents.terms.name != group:\n",
        new="            if vm_entry is None:\n",
        found_by=("tests/metadata/test_service.py", "tests/metadata/test_long_poll.py"),
    ),
    Fault(
        name="A deallocated VM is shown events",
        promise="A VM that is deallocated is refused.",
        file="src/forewarn/metadata/document_cache.py",
        old="        if vm_entry.vm.deallocated:\n            self.deallocated[key]",
        new="        if vm_entry.vm.deallocated and not vm_entry.documents.events:\n"
        "            self.deallocated[key]",
        found_by=("tests/metadata/test_document_cache.py", "tests/metadata/test_service.py"),
    ),
    Fault(
        name="A document without events is served after its group has changed",
        promise="A group's document is rendered once per change and api-version, and served until the next change.",
        file="src/forewarn/metadata/document_cache.py",
        old="        if has_changed:\n            documents.rendered = None",
        new="        if has_changed and not events:\n            documents.rendered = None",
        found_by=("tests/metadata/test_document_cache.py",),
    ),
    Fault(
        name="The first request of a group is answered before its enrolment is durable",
        promise="No reply, document, driver call or notification precedes the durable fact.",
        file="src/forewarn/metadata/service.py",
        old="            await asyncio.shield(enrolling)\n",
        new="            await asyncio.sleep(0)\n",
        found_by=("tests/metadata/test_service.py",),
    ),
    Fault(
        name="An address that two VMs share identifies one of them",
        promise=_SCOPE,
        file="src/forewarn/metadata/document_cache.py",
        old="        if len(owners) > 1:\n",
        new="        if len(owners) > 2:\n",
        found_by=("tests/metadata/test_document_cache.py", "tests/metadata/test_identity.py"),
    ),
    Fault(
        name="Tags of two groups are equal",
        promise="A VM that joins another group is never told that its document is unchanged.",
        file="src/forewarn/metadata/document_cache.py",
        old='documents.tag = f"{name}-{documents.incarnation}".encode()',
        new='documents.tag = f"{name[:1]}-{documents.incarnation}".encode()',
        found_by=("tests/metadata/test_document_cache.py", "tests/metadata/test_service.py"),
    ),
)
