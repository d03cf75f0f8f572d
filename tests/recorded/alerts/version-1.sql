BEGIN TRANSACTION;
CREATE TABLE alert (
	id VARCHAR(320) NOT NULL, 
	objective_id VARCHAR(255) NOT NULL, 
	objective_name TEXT NOT NULL, 
	tier VARCHAR(16) NOT NULL, 
	severity VARCHAR(16) NOT NULL, 
	dedup_key VARCHAR(64) NOT NULL, 
	started_at_s INTEGER NOT NULL, 
	resolved_at_s INTEGER, 
	told BOOLEAN NOT NULL, 
	inhibited BOOLEAN NOT NULL, 
	stale BOOLEAN NOT NULL, 
	message TEXT NOT NULL, 
	why TEXT NOT NULL, 
	blame TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "alert" VALUES('chat-ticket-1772355660','chat','chat','ticket','ticket','ec67a86fae61ca29de4df5b2a39fc912',1772355660,NULL,1,1,0,'chat has a ticket since 09:01 UTC: 9000 of 48000 requests in the last 1 d waited more than 1.5 s for the first token (18.8 %); the promise is at most 1 %. Which stage is at fault is not known. Not measured: network, overhead, queue, prefill, kv transfer.','["last 1 d: 9000 of 48000 bad, 18.8 % > 3 % (1360 of 1440 min not observed)", "last 2 h: 9000 of 48000 bad, 18.8 % > 3 % (40 of 120 min not observed)"]','{"stage": null, "now_s": null, "before_s": null, "share": null, "missing": ["network", "overhead", "queue", "prefill", "kv_transfer"], "next_step": "", "per_token": false, "behind": [], "place": null}');
INSERT INTO "alert" VALUES('chat-page-1772355840','chat','chat','page','page','4c0a7db06e01503626573ade26871165',1772355840,NULL,1,0,0,'chat pages since 09:04 UTC: 9000 of 36000 requests in the last 1 h waited more than 1.5 s for the first token (25 %); the promise is at most 1 %. Which stage is at fault is not known. Not measured: network, overhead, queue, prefill, kv transfer.','["last 1 h: 9000 of 36000 bad, 25 % > 14.4 %", "last 5 min: 0 of 3000 bad, 0 % \u2264 14.4 %"]','{"stage": null, "now_s": null, "before_s": null, "share": null, "missing": ["network", "overhead", "queue", "prefill", "kv_transfer"], "next_step": "", "per_token": false, "behind": [], "place": null}');
INSERT INTO "alert" VALUES('voice-page-1772356320','voice','voice','page','page','99d8d30aac753fe3d884d5c0cd485555',1772356320,NULL,1,0,0,'voice pages since 09:12 UTC: 9000 of 48000 requests in the last 6 h took more than 30 s (18.8 %); the promise is at most 5 %. Which stage is at fault is not known. Not measured: network, overhead, queue, prefill, kv transfer, decode.','["last 6 h: 9000 of 48000 bad, 18.8 % > 7 % (280 of 360 min not observed)", "last 30 min: 9000 of 18000 bad, 50 % > 7 %"]','{"stage": null, "now_s": null, "before_s": null, "share": null, "missing": ["network", "overhead", "queue", "prefill", "kv_transfer", "decode"], "next_step": "", "per_token": false, "behind": [], "place": null}');
INSERT INTO "alert" VALUES('voice-ticket-1772356320','voice','voice','ticket','ticket','ebb6f4a63933007c309a62a1fc12fc01',1772356320,NULL,0,1,0,'voice has a ticket since 09:12 UTC: 9000 of 48000 requests in the last 1 d took more than 30 s (18.8 %); the promise is at most 5 %. Which stage is at fault is not known. Not measured: network, overhead, queue, prefill, kv transfer, decode.','["last 1 d: 9000 of 48000 bad, 18.8 % > 5 % (1360 of 1440 min not observed)", "last 2 h: 9000 of 48000 bad, 18.8 % > 5 % (40 of 120 min not observed)"]','{"stage": null, "now_s": null, "before_s": null, "share": null, "missing": ["network", "overhead", "queue", "prefill", "kv_transfer", "decode"], "next_step": "", "per_token": false, "behind": [], "place": null}');
CREATE TABLE alert_event (
	id INTEGER NOT NULL, 
	alert_id VARCHAR(320) NOT NULL, 
	at_s INTEGER NOT NULL, 
	event VARCHAR(32) NOT NULL, 
	text TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(alert_id) REFERENCES alert (id)
);
INSERT INTO "alert_event" VALUES(1,'chat-ticket-1772355660',1772355660,'firing','chat has a ticket since 09:01 UTC: 600 of 36600 requests in the last 3 d waited more than 1.5 s for the first token (1.64 %); the promise is at most 1 %. Which stage is at fault is not known. Not measured: network, overhead, queue, prefill, kv transfer.');
INSERT INTO "alert_event" VALUES(2,'chat-page-1772355840',1772355840,'firing','chat pages since 09:04 UTC: 2400 of 38400 requests in the last 6 h waited more than 1.5 s for the first token (6.25 %); the promise is at most 1 %. Which stage is at fault is not known. Not measured: network, overhead, queue, prefill, kv transfer.');
INSERT INTO "alert_event" VALUES(3,'voice-page-1772356320',1772356320,'firing','voice pages since 09:12 UTC: 7200 of 36000 requests in the last 1 h took more than 30 s (20 %); the promise is at most 5 %. Which stage is at fault is not known. Not measured: network, overhead, queue, prefill, kv transfer, decode.');
CREATE TABLE alert_meta (
	"key" VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "alert_meta" VALUES('version','1');
CREATE TABLE condition_state (
	condition_id VARCHAR(128) NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	since_s INTEGER, 
	last_true_s INTEGER, 
	stale BOOLEAN NOT NULL, 
	condition TEXT NOT NULL, 
	PRIMARY KEY (condition_id)
);
CREATE TABLE delivery_attempt (
	id INTEGER NOT NULL, 
	outbox_id INTEGER NOT NULL, 
	at_s DOUBLE NOT NULL, 
	outcome VARCHAR(16) NOT NULL, 
	detail TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(outbox_id) REFERENCES outbox (id)
);
CREATE TABLE minute_slice (
	series_id INTEGER NOT NULL, 
	minute_at_s INTEGER NOT NULL, 
	good_low INTEGER NOT NULL, 
	good_high INTEGER NOT NULL, 
	total INTEGER NOT NULL, 
	excluded INTEGER NOT NULL, 
	PRIMARY KEY (series_id, minute_at_s)
)
 WITHOUT ROWID

;
INSERT INTO "minute_slice" VALUES(1,1772352000,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352060,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352120,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352180,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352240,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352300,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352360,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352420,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352480,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352540,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352600,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352660,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352720,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352780,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352840,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352900,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772352960,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353020,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353080,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353140,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353200,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353260,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353320,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353380,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353440,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353500,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353560,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353620,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353680,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353740,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353800,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353860,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353920,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772353980,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354040,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354100,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354160,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354220,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354280,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354340,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354400,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354460,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354520,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354580,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354640,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354700,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354760,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354820,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354880,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772354940,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355000,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355060,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355120,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355180,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355240,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355300,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355360,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355420,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355480,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355540,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355600,0,0,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355660,0,0,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355720,0,0,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355780,0,0,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355840,0,0,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355900,0,0,600,0);
INSERT INTO "minute_slice" VALUES(1,1772355960,0,0,600,0);
INSERT INTO "minute_slice" VALUES(1,1772356020,0,0,600,0);
INSERT INTO "minute_slice" VALUES(1,1772356080,0,0,600,0);
INSERT INTO "minute_slice" VALUES(1,1772356140,0,0,600,0);
INSERT INTO "minute_slice" VALUES(1,1772356200,0,0,600,0);
INSERT INTO "minute_slice" VALUES(1,1772356260,0,0,600,0);
INSERT INTO "minute_slice" VALUES(1,1772356320,0,0,600,0);
INSERT INTO "minute_slice" VALUES(1,1772356380,0,0,600,0);
INSERT INTO "minute_slice" VALUES(1,1772356440,0,0,600,0);
INSERT INTO "minute_slice" VALUES(1,1772356500,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772356560,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772356620,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772356680,600,600,600,0);
INSERT INTO "minute_slice" VALUES(1,1772356740,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352000,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352060,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352120,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352180,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352240,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352300,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352360,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352420,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352480,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352540,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352600,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352660,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352720,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352780,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352840,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352900,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772352960,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353020,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353080,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353140,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353200,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353260,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353320,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353380,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353440,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353500,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353560,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353620,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353680,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353740,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353800,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353860,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353920,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772353980,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354040,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354100,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354160,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354220,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354280,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354340,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354400,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354460,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354520,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354580,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354640,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354700,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354760,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354820,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354880,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772354940,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355000,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355060,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355120,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355180,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355240,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355300,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355360,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355420,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355480,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355540,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355600,0,0,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355660,0,0,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355720,0,0,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355780,0,0,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355840,0,0,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355900,0,0,600,0);
INSERT INTO "minute_slice" VALUES(2,1772355960,0,0,600,0);
INSERT INTO "minute_slice" VALUES(2,1772356020,0,0,600,0);
INSERT INTO "minute_slice" VALUES(2,1772356080,0,0,600,0);
INSERT INTO "minute_slice" VALUES(2,1772356140,0,0,600,0);
INSERT INTO "minute_slice" VALUES(2,1772356200,0,0,600,0);
INSERT INTO "minute_slice" VALUES(2,1772356260,0,0,600,0);
INSERT INTO "minute_slice" VALUES(2,1772356320,0,0,600,0);
INSERT INTO "minute_slice" VALUES(2,1772356380,0,0,600,0);
INSERT INTO "minute_slice" VALUES(2,1772356440,0,0,600,0);
INSERT INTO "minute_slice" VALUES(2,1772356500,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772356560,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772356620,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772356680,600,600,600,0);
INSERT INTO "minute_slice" VALUES(2,1772356740,600,600,600,0);
CREATE TABLE objective_revision (
	id INTEGER NOT NULL, 
	objective_id VARCHAR(255) NOT NULL, 
	series_id INTEGER NOT NULL, 
	since_s INTEGER NOT NULL, 
	target VARCHAR(64) NOT NULL, 
	definition TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(series_id) REFERENCES slice_series (id)
);
INSERT INTO "objective_revision" VALUES(1,'chat',1,0,'99/100','{"name": "chat", "metric": "ttft", "threshold_s": "3/2", "where": {}, "target": "99/100", "period_s": 2592000, "min_events": 10, "runbook": "", "description": "", "for_s": 0, "keep_firing_s": 900, "no_data_after_s": 600, "no_data": "page"}');
INSERT INTO "objective_revision" VALUES(2,'voice',2,0,'19/20','{"name": "voice", "metric": "e2e", "threshold_s": "30", "where": {"use_case": "voice"}, "target": "19/20", "period_s": 604800, "min_events": 5, "runbook": "https://runbooks.example/voice", "description": "", "for_s": 0, "keep_firing_s": 0, "no_data_after_s": 600, "no_data": "ticket"}');
CREATE TABLE objective_standing (
	objective_id VARCHAR(255) NOT NULL, 
	active BOOLEAN NOT NULL, 
	revision_id INTEGER NOT NULL, 
	evaluated_until_s INTEGER NOT NULL, 
	filled_from_s INTEGER NOT NULL, 
	observed_at_s INTEGER, 
	counted_since_s INTEGER, 
	standing TEXT NOT NULL, 
	PRIMARY KEY (objective_id), 
	FOREIGN KEY(revision_id) REFERENCES objective_revision (id)
);
INSERT INTO "objective_standing" VALUES('chat',1,1,1772356800,1769738340,1772356800,1772352000,'{"verdicts": [["page-quick", "CALM", [27000, 27000, 36000, 60, 60], [3000, 3000, 3000, 5, 5], false, true], ["page-slow", "BURNING", [39000, 39000, 48000, 360, 80], [9000, 9000, 18000, 30, 30], true, true], ["ticket-quick", "BURNING", [39000, 39000, 48000, 1440, 80], [39000, 39000, 48000, 120, 80], true, true], ["ticket-slow", "BURNING", [39000, 39000, 48000, 4320, 80], [39000, 39000, 48000, 360, 80], true, true]], "spending": ["480", 9000, 9000, 48000], "last_hour": [27000, 27000, 36000, 60, 60], "trouble": ""}');
INSERT INTO "objective_standing" VALUES('voice',1,2,1772356800,1771729860,1772356800,1772352000,'{"verdicts": [["page-quick", "CALM", [27000, 27000, 36000, 60, 60], [3000, 3000, 3000, 5, 5], false, true], ["page-slow", "BURNING", [39000, 39000, 48000, 360, 80], [9000, 9000, 18000, 30, 30], true, true], ["ticket-quick", "BURNING", [39000, 39000, 48000, 1440, 80], [39000, 39000, 48000, 120, 80], true, true], ["ticket-slow", "BURNING", [39000, 39000, 48000, 4320, 80], [39000, 39000, 48000, 360, 80], true, true]], "spending": ["2400", 9000, 9000, 48000], "last_hour": [27000, 27000, 36000, 60, 60], "trouble": ""}');
CREATE TABLE outbox (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	receiver VARCHAR(64) NOT NULL, 
	dedup_key VARCHAR(64) NOT NULL, 
	body TEXT NOT NULL, 
	created_at_s DOUBLE NOT NULL, 
	next_at_s DOUBLE NOT NULL, 
	attempts INTEGER NOT NULL, 
	done_at_s DOUBLE, 
	outcome VARCHAR(16) NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE ("key")
);
INSERT INTO "outbox" VALUES(1,'63a623c342480273c44f1180d0dfdbc5','pager','ec67a86fae61ca29de4df5b2a39fc912','{"version": 1, "event": "firing", "dedup_key": "ec67a86fae61ca29de4df5b2a39fc912", "alert_id": "chat-ticket-1772355660", "objective": "chat", "objective_id": "chat", "severity": "ticket", "tier": "ticket", "text": "chat has a ticket since 09:01 UTC: 600 of 36600 requests in the last 3 d waited more than 1.5 s for the first token (1.64 %); the promise is at most 1 %. Which stage is at fault is not known. Not measured: network, overhead, queue, prefill, kv transfer.", "counts": {"long": {"window_s": 259200, "bad": 600, "bad_possible": 600, "total": 36600}, "short": {"window_s": 21600, "bad": 600, "bad_possible": 600, "total": 36600}}, "why": ["last 3 d: 600 of 36600 bad, 1.64 % > 1 % (4259 of 4320 min not observed)", "last 6 h: 600 of 36600 bad, 1.64 % > 1 % (299 of 360 min not observed)"], "budget_remaining": -0.639344262295082, "stage": null, "place": null, "next": null, "not_measured": ["network", "overhead", "queue", "prefill", "kv_transfer"], "started_at": "2026-03-01T09:01:00Z", "resolved_at": null, "links": {"alert": "http://127.0.0.1:8400/alerts/chat-ticket-1772355660", "objective": "http://127.0.0.1:8400/api/v1/slos/chat", "runbook": null}, "idempotency_key": "63a623c342480273c44f1180d0dfdbc5"}',1772355671.0,1772355671.0,0,NULL,'waiting');
INSERT INTO "outbox" VALUES(2,'b5589be500d8b45827d81f9b669b9c4f','pager','4c0a7db06e01503626573ade26871165','{"version": 1, "event": "firing", "dedup_key": "4c0a7db06e01503626573ade26871165", "alert_id": "chat-page-1772355840", "objective": "chat", "objective_id": "chat", "severity": "page", "tier": "page", "text": "chat pages since 09:04 UTC: 2400 of 38400 requests in the last 6 h waited more than 1.5 s for the first token (6.25 %); the promise is at most 1 %. Which stage is at fault is not known. Not measured: network, overhead, queue, prefill, kv transfer.", "counts": {"long": {"window_s": 21600, "bad": 2400, "bad_possible": 2400, "total": 38400}, "short": {"window_s": 1800, "bad": 2400, "bad_possible": 2400, "total": 18000}}, "why": ["last 6 h: 2400 of 38400 bad, 6.25 % > 6 % (296 of 360 min not observed)", "last 30 min: 2400 of 18000 bad, 13.3 % > 6 %"], "budget_remaining": -5.25, "stage": null, "place": null, "next": null, "not_measured": ["network", "overhead", "queue", "prefill", "kv_transfer"], "started_at": "2026-03-01T09:04:00Z", "resolved_at": null, "links": {"alert": "http://127.0.0.1:8400/alerts/chat-page-1772355840", "objective": "http://127.0.0.1:8400/api/v1/slos/chat", "runbook": null}, "idempotency_key": "b5589be500d8b45827d81f9b669b9c4f"}',1772355851.0,1772355851.0,0,NULL,'waiting');
INSERT INTO "outbox" VALUES(3,'cf33a06ab930f0cf07082af43e2973bc','pager','99d8d30aac753fe3d884d5c0cd485555','{"version": 1, "event": "firing", "dedup_key": "99d8d30aac753fe3d884d5c0cd485555", "alert_id": "voice-page-1772356320", "objective": "voice", "objective_id": "voice", "severity": "page", "tier": "page", "text": "voice pages since 09:12 UTC: 7200 of 36000 requests in the last 1 h took more than 30 s (20 %); the promise is at most 5 %. Which stage is at fault is not known. Not measured: network, overhead, queue, prefill, kv transfer, decode.", "counts": {"long": {"window_s": 3600, "bad": 7200, "bad_possible": 7200, "total": 36000}, "short": {"window_s": 300, "bad": 3000, "bad_possible": 3000, "total": 3000}}, "why": ["last 1 h: 7200 of 36000 bad, 20 % > 16.8 %", "last 5 min: 3000 of 3000 bad, 100 % > 16.8 %"], "budget_remaining": -2.3333333333333335, "stage": null, "place": null, "next": null, "not_measured": ["network", "overhead", "queue", "prefill", "kv_transfer", "decode"], "started_at": "2026-03-01T09:12:00Z", "resolved_at": null, "links": {"alert": "http://127.0.0.1:8400/alerts/voice-page-1772356320", "objective": "http://127.0.0.1:8400/api/v1/slos/voice", "runbook": "https://runbooks.example/voice"}, "idempotency_key": "cf33a06ab930f0cf07082af43e2973bc"}',1772356331.0,1772356331.0,0,NULL,'waiting');
CREATE TABLE rule_state (
	objective_id VARCHAR(255) NOT NULL, 
	rule VARCHAR(64) NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	since_s INTEGER, 
	last_true_s INTEGER, 
	stale BOOLEAN NOT NULL, 
	PRIMARY KEY (objective_id, rule)
);
INSERT INTO "rule_state" VALUES('chat','page-quick','recovering',1772356140,1772356740,0);
INSERT INTO "rule_state" VALUES('chat','page-slow','firing',1772355840,1772356800,0);
INSERT INTO "rule_state" VALUES('chat','ticket-quick','firing',1772355720,1772356800,0);
INSERT INTO "rule_state" VALUES('chat','ticket-slow','firing',1772355660,1772356800,0);
INSERT INTO "rule_state" VALUES('chat','no-data','quiet',NULL,NULL,0);
INSERT INTO "rule_state" VALUES('voice','page-quick','resolved',1772356800,1772356740,0);
INSERT INTO "rule_state" VALUES('voice','page-slow','firing',1772356320,1772356800,0);
INSERT INTO "rule_state" VALUES('voice','ticket-quick','firing',1772356320,1772356800,0);
INSERT INTO "rule_state" VALUES('voice','ticket-slow','firing',1772356320,1772356800,0);
INSERT INTO "rule_state" VALUES('voice','no-data','quiet',NULL,NULL,0);
CREATE TABLE slice_series (
	id INTEGER NOT NULL, 
	objective_id VARCHAR(255) NOT NULL, 
	indicator TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "slice_series" VALUES(1,'chat','["ttft", "3/2", []]');
INSERT INTO "slice_series" VALUES(2,'voice','["e2e", "30", [["use_case", "voice"]]]');
CREATE INDEX ix_slice_series_objective_id ON slice_series (objective_id);
CREATE INDEX alert_by_key ON alert (dedup_key, started_at_s);
CREATE INDEX ix_alert_resolved_at_s ON alert (resolved_at_s);
CREATE INDEX ix_alert_objective_id ON alert (objective_id);
CREATE INDEX outbox_open ON outbox (receiver, done_at_s, id);
CREATE INDEX ix_objective_revision_objective_id ON objective_revision (objective_id);
CREATE INDEX ix_alert_event_alert_id ON alert_event (alert_id);
CREATE INDEX ix_delivery_attempt_outbox_id ON delivery_attempt (outbox_id);
COMMIT;
