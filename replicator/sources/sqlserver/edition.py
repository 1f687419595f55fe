"""Which product answers: SQL Server, or one of Azure's, which lacks some of it
(learn.microsoft.com/sql/t-sql/functions/serverproperty-transact-sql, EngineEdition).
"""

from __future__ import annotations

from replicator.sources.sqlserver.connection import SqlServerSession

AZURE_DATABASE, AZURE_MANAGED = 5, 8


def engine_edition(connection: SqlServerSession) -> int:
    """As SERVERPROPERTY numbers it; 0 where the server does not say."""
    ((found,),) = connection.rows("SELECT CONVERT(int, SERVERPROPERTY('EngineEdition'))", connection.where)
    return int(found or 0)


def is_azure_database(connection: SqlServerSession) -> bool:
    """Azure SQL Database: no USE, no msdb, no agent; a scheduler fills and empties the change tables, and its jobs are
    in cdc.cdc_jobs (learn.microsoft.com/azure/azure-sql/database/change-data-capture-overview).
    """
    return engine_edition(connection) == AZURE_DATABASE
