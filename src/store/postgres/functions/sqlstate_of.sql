-- The SQLSTATE of a refusal: class WR, then the number of the status in include/weir/status.h (docs/sql.md lists them). Caller: refuse().
CREATE OR REPLACE FUNCTION :schema.sqlstate_of(status text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE status
        WHEN 'invalid_argument' THEN 'WR002' WHEN 'params_invalid' THEN 'WR004' WHEN 'params_too_large' THEN 'WR005'
        WHEN 'not_found' THEN 'WR007' WHEN 'workspace_not_found' THEN 'WR008' WHEN 'workflow_not_found' THEN 'WR009'
        WHEN 'execution_not_found' THEN 'WR010' WHEN 'plan_not_found' THEN 'WR011' WHEN 'idempotency_key_reused' THEN 'WR012'
        WHEN 'conflict' THEN 'WR013' WHEN 'illegal_state' THEN 'WR014' WHEN 'queue_full' THEN 'WR016'
        WHEN 'workflow_of_another_workspace' THEN 'WR018'
        WHEN 'store_busy' THEN 'WR020' WHEN 'workflow_disabled' THEN 'WR035'
        ELSE 'WR001' END
$$;
