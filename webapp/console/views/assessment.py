"""The assessment step: what each table becomes, and deciding about it on the spot."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from replicator.errors import TidemarkError
from replicator.model.identifiers import TableId
from webapp.connections.presentation import check_lines, check_summary
from webapp.console.views.wizard_draft import Wizard, open_wizard
from webapp.web.paging import Pager, page_number
from webapp.web.responses import user_of

PER_PAGE = 50
SUPPORTS = ("none", "partial", "full")


@login_required
@require_safe
def run(request: HttpRequest, draft: int) -> HttpResponse:
    """The assessment, or a page of it."""
    return _show(request, open_wizard(user_of(request), draft), request.GET, fresh=request.GET.get("again") == "1")


def _show(request: HttpRequest, wizard: Wizard, view: QueryDict, *, fresh: bool = False) -> HttpResponse:
    try:
        assessed = wizard.assess(fresh=fresh)
    except TidemarkError as error:
        return render(request, "replicators/wizard/assessed.html", {"draft": wizard.draft, "error": error})
    found, checks = assessed.tables, check_lines(assessed.failed)
    accepted = set(wizard.data.get("accepted", ()))
    support = view.get("support", "")
    shown = [one for one in found if support not in SUPPORTS or one.support == support]
    shown.sort(key=lambda one: (SUPPORTS.index(one.support), one.table))
    number = min(page_number(view), max(1, -(-len(shown) // PER_PAGE)))
    query = QueryDict(mutable=True)
    query["support"] = support
    assert wizard.draft is not None
    pager = Pager(
        number, PER_PAGE, len(shown), reverse("replicators:assess", args=[wizard.draft.pk]), query, "#assessed"
    )
    context: dict[str, Any] = {
        "draft": wizard.draft,
        "tables": [(one, str(one.table) in accepted) for one in shown[pager.first - 1 : pager.last]],
        "counts": {name: sum(one.support == name for one in found) for name in SUPPORTS},
        "total": len(found),
        "open_partial": sum(one.support == "partial" and str(one.table) not in accepted for one in found),
        "support": support,
        "pager": pager,
        "checks": checks,
        "summary": check_summary(checks),
    }
    return render(request, "replicators/wizard/assessed.html", context)


@login_required
@transaction.atomic
@require_POST
def change(request: HttpRequest, draft: int) -> HttpResponse:
    """Accept, leave a column out, remove a table, or remove all that cannot be replicated."""
    wizard = open_wizard(user_of(request), draft, lock=True)
    post = request.POST
    selected, accepted = wizard.selected, set(wizard.data.get("accepted", ()))
    table = TableId(post.get("of", ""), post.get("table", ""))
    operation = post.get("op")
    if operation == "remove":
        selected.set_tables([table], on=False)
    elif operation == "column":
        selected.leave_out(table, selected.columns.get(table, set()) | {post["column"]})
    elif operation == "accept":
        accepted ^= {str(table)}
    elif operation == "accept_all":
        accepted |= {str(one.table) for one in wizard.assess().tables if one.support == "partial"}
    elif operation == "remove_none":
        selected.set_tables([one.table for one in wizard.assess().tables if one.support == "none"], on=False)
    wizard.save("assessment", selection=selected.to_dict(), accepted=sorted(accepted))
    return _show(request, wizard, post)
