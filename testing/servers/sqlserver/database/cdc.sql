-- Change data capture, as documented ("Change Data Capture Tables", "... Functions", "... Stored Procedures").

