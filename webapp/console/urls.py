"""Fleet, wizard, and the pages of one replicator."""

from __future__ import annotations

from django.urls import path

from webapp.console.views import (
    actions,
    add_tables,
    assessment,
    detail,
    fleet,
    lineage,
    partial_snapshots,
    table_columns,
    table_picker,
    target_table,
    wizard,
)

app_name = "replicators"
DRAFT = "replicators/new/<int:draft>/"
ONE = "replicators/<int:pk>/"
urlpatterns = [
    path("", fleet.index, name="fleet"),
    path("fleet/rows/", fleet.rows, name="fleet_rows"),
    path("replicators/new/", wizard.begin, name="new"),
    path(DRAFT + "discard/", wizard.discard, name="discard"),
    path(DRAFT + "save/<slug:step>/", wizard.keep, name="keep"),
    path(DRAFT + "tables/list/", table_picker.listing, name="listing"),
    path(DRAFT + "tables/pick/", table_picker.pick, name="pick"),
    path(DRAFT + "tables/pattern/", table_picker.pattern, name="pattern"),
    path(DRAFT + "tables/columns/", table_picker.columns, name="columns"),
    path(DRAFT + "assessment/run/", assessment.run, name="assess"),
    path(DRAFT + "assessment/change/", assessment.change, name="assess_change"),
    path(DRAFT + "<slug:step>/", wizard.step, name="step"),
    path(ONE, detail.overview, name="overview"),
    path(ONE + "head/", detail.head, name="head"),
    path(ONE + "tables/", detail.tables, name="tables"),
    path(ONE + "tables/add/", add_tables.add, name="add_tables"),
    path(ONE + "activity/", detail.activity, name="activity"),
    path(ONE + "schema/", detail.schema, name="schema"),
    path(ONE + "lineage/", lineage.overview, name="lineage"),
    path(ONE + "lineage/<int:table>/", lineage.table, name="lineage_table"),
    path(ONE + "settings/", detail.settings, name="settings"),
    path(ONE + "settings/target/", detail.target, name="target"),
    path(ONE + "do/<slug:action>/", actions.act, name="act"),
    path(ONE + "tables/<int:table>/rename-target/", actions.rename_target, name="rename_target"),
    path(ONE + "tables/<int:table>/mode/", actions.change_mode, name="change_mode"),
    path(ONE + "tables/<int:table>/taking/", table_columns.columns, name="table_columns"),  # deprecated
    path(ONE + "tables/<int:table>/columns/", table_columns.columns, name="table_columns"),
    path(ONE + "tables/<int:table>/target/", target_table.target, name="table_target"),
    path(ONE + "tables/<int:table>/preview/", target_table.preview, name="table_preview"),
    path(ONE + "tables/<int:table>/snapshots/", partial_snapshots.snapshots, name="table_snapshots"),
    path(ONE + "tables/<int:table>/<slug:action>/", actions.act_on_table, name="act_on_table"),
]
