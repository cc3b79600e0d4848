-- The database of a service with the migrations up to 0011, after two refused and two completed requests.
BEGIN TRANSACTION;
CREATE TABLE accounts (
      id text not null primary key,
      name text not null,
      status text not null check (status in ('active', 'suspended', 'closed')),
      created_at integer not null
    , plan text) strict;
INSERT INTO "accounts" VALUES('default','Default','active',1795907216038,NULL);
INSERT INTO "accounts" VALUES('acct_d015518490d8a20c30c600cc','acme','active',1795907216081,NULL);
CREATE TABLE attempts (
      name text not null primary key,
      count integer not null,
      until integer not null
    ) strict, without rowid;
INSERT INTO "attempts" VALUES('setUp:address:12ca17b49af2289436f303e0166030a21e525d266e209267433801a8fd4071a0',1,1795908143932);
CREATE TABLE audit (
      id text not null primary key,
      at integer not null,
      actor text not null,
      ip text,
      action text not null,
      subject text not null,
      account_id text,
      detail text not null
    ) strict, without rowid;
INSERT INTO "audit" VALUES('01a22469-62d2-7fd0-9027-7ddb77740df8',1795907216082,'cli:root',NULL,'account.create','account:acct_d015518490d8a20c30c600cc','acct_d015518490d8a20c30c600cc','{"name":"acme","plan":null}');
INSERT INTO "audit" VALUES('01a22469-64be-7da9-bc1d-9c72c577cd90',1795907216574,'cli:root',NULL,'key.create','key:key_e7db53548c6f9a0a81050af8','acct_d015518490d8a20c30c600cc','{"kind":"caller","purpose":"api","name":"app","expires_at":null,"allowed_models":null,"limits":null}');
INSERT INTO "audit" VALUES('01a22469-d0f5-796d-9bfb-df2306d3e925',1795907244277,'person:person_b7920f06d60b4b0cc93dc429','127.0.0.1','person.make_operator','person:person_b7920f06d60b4b0cc93dc429',NULL,'{"by_link":true}');
INSERT INTO "audit" VALUES('01a22469-d0f5-7d8e-882b-6f82d8bef01e',1795907244277,'person:person_b7920f06d60b4b0cc93dc429','127.0.0.1','member.set','person:person_b7920f06d60b4b0cc93dc429','default','{"role":"owner"}');
CREATE TABLE credentials (
      id text not null primary key,
      person_id text not null references people (id) on delete cascade,
      provider text not null,
      subject text not null,
      password_hash text,
      created_at integer not null,
      updated_at integer not null,
      unique (provider, subject)
    ) strict;
INSERT INTO "credentials" VALUES('credential_c069ac3fb88e6b59dd94f0ca','person_b7920f06d60b4b0cc93dc429','credential','person_b7920f06d60b4b0cc93dc429','1e806a62a24f0b1f2b4a9e3d30d1e8eb:df1bb136d00196118511c9b99623a2e51c8d9dd6b0c43155dc40c9b48db3b18df6717ea25796be6d809b24a702e48a348f7227f2cfc5d67275311179384c2852',1795907244276,1795907244276);
CREATE TABLE drained_replicas (
      model text not null,
      server text not null,
      drained_at integer not null,
      primary key (model, server)
    ) strict, without rowid;
CREATE TABLE instances (
      epoch integer not null primary key autoincrement,
      live integer not null check (live in (0, 1)),
      lease_until integer not null,
      started_at integer not null,
      pid integer not null
    ) strict;
INSERT INTO "instances" VALUES(1,0,1795907260283,1795907226934,5235);
CREATE TABLE invitations (
      id text not null primary key,
      token_hash text not null unique check (length(token_hash) = 64),
      account_id text not null references accounts (id),
      email text not null,
      role text not null check (role in ('owner', 'member')),
      invited_by text not null,
      created_at integer not null,
      expires_at integer not null,
      unique (account_id, email)
    ) strict;
CREATE TABLE keys (
      id text not null primary key,
      account_id text not null references accounts (id),
      kind text not null check (kind in ('caller', 'admin')),
      name text not null,
      hash text not null unique check (length(hash) = 64),
      prefix text not null,
      last_four text not null,
      created_at integer not null,
      expires_at integer,
      revoked_at integer,
      last_used_at integer
    , allowed_models text, limits text, purpose text not null default 'api'
    check (purpose in ('api', 'playground')), last_used_ip text) strict;
INSERT INTO "keys" VALUES('key_e7db53548c6f9a0a81050af8','acct_d015518490d8a20c30c600cc','caller','app','43039105846c7e0e8509c146ab6117b6faa47b314fcc1e87b66fb13f2da5675c','sk-sluice-UAUB','ZJVw',1795907216571,NULL,NULL,1795907250403,NULL,NULL,'api','127.0.0.1');
CREATE TABLE latency_days (
      account_id text not null,
      day integer not null,
      model text not null,
      key_id text not null,
      measure text not null check (measure in ('ttft', 'speed')),
      bucket integer not null,
      count integer not null,
      primary key (account_id, day, model, key_id, measure, bucket)
    ) strict, without rowid;
INSERT INTO "latency_days" VALUES('acct_d015518490d8a20c30c600cc',20785,'test/scripted','key_e7db53548c6f9a0a81050af8','ttft',53,1);
INSERT INTO "latency_days" VALUES('acct_d015518490d8a20c30c600cc',20785,'test/scripted','key_e7db53548c6f9a0a81050af8','ttft',99,1);
CREATE TABLE ledger (
      id text not null primary key,
      client_request_id text,
      account_id text not null,
      key_id text not null,
      endpoint text not null check (endpoint in ('chat', 'text')),
      model text not null,
      streamed integer not null check (streamed in (0, 1)),
      epoch integer not null,
      state text not null check (state in ('open', 'settled', 'interrupted')),
      started_at integer not null,
      plan text not null,
      limits text not null,
      reserved_tokens integer not null check (reserved_tokens >= 0),
      reserved_pico integer not null check (reserved_pico >= 0),
      price_prompt integer not null check (price_prompt >= 0),
      price_completion integer not null check (price_completion >= 0),
      replica text,
      attempts integer not null,
      slot_at integer,
      first_token_at integer,
      ended_at integer,
      prompt_tokens integer not null check (prompt_tokens >= 0),
      cached_tokens integer not null check (cached_tokens >= 0),
      completion_tokens integer not null check (completion_tokens >= 0),
      usage_source text check (usage_source in ('engine', 'estimated', 'clamped')),
      billed integer not null check (billed in (0, 1)),
      cost_pico integer not null check (cost_pico >= 0),
      finish_reason text,
      error_code text,
      http_status integer,
      delivered integer check (delivered in (0, 1)),
      checkpoint_at integer
    , reasoning_tokens integer not null default 0
    check (reasoning_tokens >= 0), continued_after integer
    check (continued_after is null or continued_after >= 0)) strict, without rowid;
INSERT INTO "ledger" VALUES('01a22469-8fcc-71a3-8b52-e80d7ca496ba','old-1','acct_d015518490d8a20c30c600cc','key_e7db53548c6f9a0a81050af8','chat','test/scripted',0,1,'settled',1795907227598,'standard','[["account",null,"requestsPerMinute",6000,5999],["account",null,"tokensPerMinute",100000000,99868928],["account",null,"requestsInFlight",1000,999]]',131072,262144000000,1000000,2000000,NULL,0,NULL,NULL,1795907227625,0,0,0,NULL,0,0,NULL,'engine_unavailable',503,1,NULL,0,NULL);
INSERT INTO "ledger" VALUES('01a22469-9020-7eab-a3ef-db82d6e07771','old-2','acct_d015518490d8a20c30c600cc','key_e7db53548c6f9a0a81050af8','chat','test/scripted',0,1,'settled',1795907227681,'standard','[["account",null,"requestsPerMinute",6000,5999],["account",null,"tokensPerMinute",100000000,99868928],["account",null,"requestsInFlight",1000,999]]',131072,262144000000,1000000,2000000,NULL,0,NULL,NULL,1795907227682,0,0,0,NULL,0,0,NULL,'engine_unavailable',503,1,NULL,0,NULL);
INSERT INTO "ledger" VALUES('01a22469-a6a1-7297-b0bd-94b1296192e7','old-1','acct_d015518490d8a20c30c600cc','key_e7db53548c6f9a0a81050af8','chat','test/scripted',0,1,'settled',1795907233442,'standard','[["account",null,"requestsPerMinute",6000,5999],["account",null,"tokensPerMinute",100000000,99995904],["account",null,"requestsInFlight",1000,999]]',4096,8192000000,1000000,2000000,'embedded:test/scripted',1,1795907233492,1795907233492,1795907233492,15,0,2,'engine',1,19000000,'stop',NULL,200,1,NULL,0,NULL);
INSERT INTO "ledger" VALUES('01a22469-a717-7a9b-978b-48c018f9b02f','old-2','acct_d015518490d8a20c30c600cc','key_e7db53548c6f9a0a81050af8','chat','test/scripted',0,1,'settled',1795907233559,'standard','[["account",null,"requestsPerMinute",6000,5999],["account",null,"tokensPerMinute",100000000,99995904],["account",null,"requestsInFlight",1000,999]]',4096,8192000000,1000000,2000000,'embedded:test/scripted',1,1795907233567,1795907233567,1795907233567,15,0,2,'engine',1,19000000,'stop',NULL,200,1,NULL,0,NULL);
CREATE TABLE memberships (
      account_id text not null references accounts (id),
      person_id text not null references people (id) on delete cascade,
      role text not null check (role in ('owner', 'member')),
      created_at integer not null,
      primary key (account_id, person_id)
    ) strict, without rowid;
INSERT INTO "memberships" VALUES('default','person_b7920f06d60b4b0cc93dc429','owner',1795907244275);
CREATE TABLE migrations (name varchar(255) not null primary key, timestamp varchar(255) not null);
INSERT INTO "migrations" VALUES('0001_keys','2026-11-28T23:06:56.043Z');
INSERT INTO "migrations" VALUES('0002_accounts','2026-11-28T23:06:56.053Z');
INSERT INTO "migrations" VALUES('0003_ledger','2026-11-28T23:06:56.053Z');
INSERT INTO "migrations" VALUES('0004_identity','2026-11-28T23:06:56.071Z');
INSERT INTO "migrations" VALUES('0005_clamped_usage','2026-11-28T23:06:56.073Z');
INSERT INTO "migrations" VALUES('0006_reasoning_tokens','2026-11-28T23:06:56.074Z');
INSERT INTO "migrations" VALUES('0007_continued_responses','2026-11-28T23:06:56.074Z');
INSERT INTO "migrations" VALUES('0008_models','2026-11-28T23:06:56.076Z');
INSERT INTO "migrations" VALUES('0009_drained_replicas','2026-11-28T23:06:56.078Z');
INSERT INTO "migrations" VALUES('0010_refusals','2026-11-28T23:06:56.078Z');
INSERT INTO "migrations" VALUES('0011_client_disconnected','2026-11-28T23:06:56.078Z');
CREATE TABLE models (
      id text not null check (length(id) between 1 and 200),
      node text not null,
      definition text not null,
      loaded integer not null check (loaded in (0, 1)),
      created_at integer not null,
      primary key (id, node)
    ) strict;
CREATE TABLE people (
      id text not null primary key,
      name text not null,
      email text not null unique,
      created_at integer not null
    , "email_verified" integer not null default 0
      check ("email_verified" in (0, 1)), "operator" integer not null default 0
      check ("operator" in (0, 1)), "two_factor" integer not null default 0
      check ("two_factor" in (0, 1)), updated_at integer not null default 0) strict;
INSERT INTO "people" VALUES('person_b7920f06d60b4b0cc93dc429','Ada','ada@example.com',1795907244275,1,1,0,1795907244275);
CREATE TABLE recovery_codes (
      person_id text not null references people (id) on delete cascade,
      hash text not null check (length(hash) = 64),
      primary key (person_id, hash)
    ) strict, without rowid;
CREATE TABLE refusals (
      minute integer not null,
      account_id text not null,
      key_id text not null,
      code text not null,
      param text not null,
      count integer not null check (count > 0),
      last_at integer not null,
      message text not null,
      primary key (minute, account_id, key_id, code, param)
    ) strict, without rowid;
CREATE TABLE second_factors (
      person_id text not null primary key references people (id) on delete cascade,
      secret text not null,
      confirmed integer not null check (confirmed in (0, 1)),
      last_step integer not null,
      created_at integer not null
    ) strict, without rowid;
CREATE TABLE sessions (
      id text not null primary key,
      token_hash text not null unique check (length(token_hash) = 64),
      person_id text not null references people (id) on delete cascade,
      pending integer not null check (pending in (0, 1)),
      ip text,
      user_agent text,
      created_at integer not null,
      last_active_at integer not null,
      expires_at integer not null
    ) strict;
INSERT INTO "sessions" VALUES('session_f864e96c9d16e946e60cb4b4','0a9052c53476fb21a339e15f208c9da23fbfa1cc9f93e7274c290d333acc0450','person_b7920f06d60b4b0cc93dc429',0,'127.0.0.1','curl/7.88.1',1795907244573,1795907244573,1798499244572);
CREATE TABLE settings (
      name text not null primary key,
      value text not null
    ) strict;
INSERT INTO "settings" VALUES('cache_scope_secret','6b124f7488ffe0d9cae52b94a75ed102c156076e286a1ba94dcdf627a1a2a5f6');
INSERT INTO "settings" VALUES('access_revision','3');
INSERT INTO "settings" VALUES('auth_secret','7e3b87824ec072ce300c0ba7ee29f2ec2c68405c23b45c250de306c3ff9d19f0');
INSERT INTO "settings" VALUES('models_revision','0');
INSERT INTO "settings" VALUES('plans','{"plans":{"free":{"requestsPerMinute":20,"tokensPerMinute":20000,"requestsInFlight":4,"tokensPerDay":500000,"usdPerMonth":"5"},"standard":{"requestsPerMinute":6000,"tokensPerMinute":100000000,"requestsInFlight":1000},"unlimited":{}},"defaultPlan":"standard"}');
CREATE TABLE usage_days (
      account_id text not null,
      day integer not null,
      model text not null,
      key_id text not null,
      requests integer not null,
      errors integer not null,
      aborted integer not null,
      interrupted integer not null,
      prompt_tokens integer not null,
      cached_tokens integer not null,
      completion_tokens integer not null,
      billed_tokens integer not null,
      cost_pico integer not null, reasoning_tokens integer not null default 0,
      primary key (account_id, day, model, key_id)
    ) strict, without rowid;
INSERT INTO "usage_days" VALUES('acct_d015518490d8a20c30c600cc',20785,'test/scripted','key_e7db53548c6f9a0a81050af8',4,2,0,0,30,0,4,34,38000000,0);
CREATE TABLE verifications (
      id text not null primary key,
      identifier text not null,
      value text not null,
      created_at integer not null,
      updated_at integer not null,
      expires_at integer not null
    ) strict;
CREATE INDEX accounts_created on accounts (created_at, id);
CREATE INDEX keys_created on keys (created_at, id);
CREATE INDEX keys_account on keys (account_id, created_at, id);
CREATE INDEX memberships_person on memberships (person_id);
CREATE INDEX audit_account on audit (account_id, id);
CREATE TRIGGER "accounts_access_insert" after insert on "accounts" begin
          update settings set value = cast(cast(value as integer) + 1 as text)
          where name = 'access_revision';
        end;
CREATE TRIGGER "accounts_access_delete" after delete on "accounts" begin
          update settings set value = cast(cast(value as integer) + 1 as text)
          where name = 'access_revision';
        end;
CREATE TRIGGER "accounts_access_update" after update of id, name, status, plan on "accounts" begin
          update settings set value = cast(cast(value as integer) + 1 as text)
          where name = 'access_revision';
        end;
CREATE TRIGGER "keys_access_insert" after insert on "keys" begin
          update settings set value = cast(cast(value as integer) + 1 as text)
          where name = 'access_revision';
        end;
CREATE TRIGGER "keys_access_delete" after delete on "keys" begin
          update settings set value = cast(cast(value as integer) + 1 as text)
          where name = 'access_revision';
        end;
CREATE TRIGGER "keys_access_update" after update of account_id, kind, name, hash, expires_at, revoked_at, allowed_models, limits on "keys" begin
          update settings set value = cast(cast(value as integer) + 1 as text)
          where name = 'access_revision';
        end;
CREATE TRIGGER "audit_no_update" before update on audit begin
        select raise(abort, 'the audit log is append-only');
      end;
CREATE TRIGGER "audit_no_delete" before delete on audit begin
        select raise(abort, 'the audit log is append-only');
      end;
CREATE INDEX credentials_person on credentials (person_id);
CREATE INDEX sessions_person on sessions (person_id, created_at, id);
CREATE INDEX verifications_identifier on verifications (identifier);
CREATE INDEX invitations_email on invitations (email);
CREATE INDEX ledger_account on ledger (account_id, id);
CREATE INDEX ledger_client_request on ledger (account_id, client_request_id)
    where client_request_id is not null;
CREATE INDEX ledger_failed on ledger (account_id, id)
    where error_code is not null or state = 'interrupted';
CREATE INDEX ledger_open on ledger (epoch, account_id) where state = 'open';
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('instances',1);
COMMIT;
